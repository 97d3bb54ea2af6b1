// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"strings"

	celtypes "github.com/google/cel-go/common/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// nodeName is where an object names its node: its own name if both fields are empty.
type nodeName struct {
	path       []string
	expression *expression
}

func splitPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// of reads the name of the object's node. A field that is missing or null is the empty string.
func (n nodeName) of(u *unstructured.Unstructured) (string, error) {
	switch {
	case n.expression != nil:
		value, err := n.expression.eval(u.Object)
		if err != nil {
			return "", err
		}
		name, ok := value.(celtypes.String)
		if !ok {
			return "", fmt.Errorf("evaluating %q: it gives %s; it has to give string", n.expression.text, value.Type().TypeName())
		}
		return string(name), nil
	case len(n.path) > 0:
		return stringAt(u.Object, n.path)
	default:
		return u.GetName(), nil
	}
}

// identity is what is read of an object's metadata.
type identity struct {
	Metadata struct {
		DeletionTimestamp any                     `json:"deletionTimestamp"`
		Finalizers        []string                `json:"finalizers"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
		Annotations       map[string]any          `json:"annotations"`
	} `json:"metadata"`
}

// Object reads what a judgement needs. The error names the field that could not be read.
func (c *Compiled) Object(u *unstructured.Unstructured) (nodeidentity.Object, error) {
	o := nodeidentity.Object{
		Resource:        c.Resource().String(),
		Kind:            u.GetKind(),
		Namespace:       u.GetNamespace(),
		Name:            u.GetName(),
		UID:             u.GetUID(),
		ResourceVersion: u.GetResourceVersion(),
	}
	var err error
	if o.NodeName, err = c.nodeName.of(u); err != nil {
		return nodeidentity.Object{}, fmt.Errorf("reading the node name: %w", err)
	}
	var read identity
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &read); err != nil {
		return nodeidentity.Object{}, fmt.Errorf("reading %s: %w", unreadable(u), err)
	}
	o.Deleting, o.Finalizers = read.Metadata.DeletionTimestamp != nil, read.Metadata.Finalizers
	if err := c.readReferences(&o, &read); err != nil {
		return nodeidentity.Object{}, err
	}
	return o, nil
}

// unreadable is the field of the metadata because of which identity could not be read.
func unreadable(u *unstructured.Unstructured) string {
	metadata, _ := u.Object["metadata"].(map[string]any)
	for _, field := range []string{"finalizers", "ownerReferences", "annotations"} {
		alone := map[string]any{"metadata": map[string]any{field: metadata[field]}}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(alone, &identity{}) != nil {
			return "metadata." + field
		}
	}
	return "the metadata"
}

// readReferences reads the UIDs that the object carries, and counts its other owners.
func (c *Compiled) readReferences(o *nodeidentity.Object, read *identity) error {
	if key := c.spec.NodeUID.Annotation; key != "" {
		o.OtherOwners = len(read.Metadata.OwnerReferences)
		value, found := read.Metadata.Annotations[key]
		if !found {
			return nil
		}
		uid, ok := value.(string)
		if !ok {
			return fmt.Errorf("metadata.annotations[%q] is %s; expected a string", key, typeName(value))
		}
		o.References = []nodeidentity.Reference{{Name: o.NodeName, UID: types.UID(uid)}}
		return nil
	}
	for _, owner := range read.Metadata.OwnerReferences {
		if owner.APIVersion != "v1" || owner.Kind != "Node" {
			o.OtherOwners++
			continue
		}
		o.References = append(o.References, nodeidentity.Reference{Name: owner.Name, UID: owner.UID})
	}
	return nil
}

// stringAt reads the string at a path. A field that is missing or null is the empty string; any other type, on the way
// or at the end, is an error.
func stringAt(object map[string]any, path []string) (string, error) {
	var value any = object
	for i, name := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return "", fmt.Errorf("%s is %s; expected an object", strings.Join(path[:i], "."), typeName(value))
		}
		if value = fields[name]; value == nil {
			return "", nil
		}
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s is %s; expected a string", strings.Join(path, "."), typeName(value))
	}
	return text, nil
}

// typeName is what JSON calls the type of a value.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "missing or null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		return "a number"
	}
}
