// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"

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
		name, ok := value.(types.String)
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

// Object reads what a judgement needs. The error says which field could not be read, and how.
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
	metadata, err := mapAt(u.Object, "metadata")
	if err != nil {
		return nodeidentity.Object{}, err
	}
	o.Deleting = metadata["deletionTimestamp"] != nil
	if o.Finalizers, err = finalizers(metadata); err != nil {
		return nodeidentity.Object{}, err
	}
	if err := c.readIdentity(&o, metadata); err != nil {
		return nodeidentity.Object{}, err
	}
	return o, nil
}

// readIdentity reads the UIDs that the object carries, and counts its other owners.
func (c *Compiled) readIdentity(o *nodeidentity.Object, metadata map[string]any) error {
	owners, err := ownerReferences(metadata)
	if err != nil {
		return err
	}
	if key := c.spec.NodeUID.Annotation; key != "" {
		o.OtherOwners = len(owners)
		uid, found, err := annotation(metadata, key)
		if found {
			o.References = []nodeidentity.Reference{{Name: o.NodeName, UID: apitypes.UID(uid)}}
		}
		return err
	}
	for _, owner := range owners {
		if owner.apiVersion != "v1" || owner.kind != "Node" {
			o.OtherOwners++
			continue
		}
		o.References = append(o.References, nodeidentity.Reference{Name: owner.name, UID: apitypes.UID(owner.uid)})
	}
	return nil
}

func annotation(metadata map[string]any, key string) (value string, found bool, err error) {
	annotations, err := mapAt(metadata, "annotations")
	if err != nil {
		return "", false, err
	}
	raw, found := annotations[key]
	if !found {
		return "", false, nil
	}
	value, ok := raw.(string)
	if !ok {
		return "", false, fmt.Errorf("metadata.annotations[%q] is %s; expected a string", key, typeName(raw))
	}
	return value, true, nil
}
