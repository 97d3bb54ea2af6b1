// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"strings"
)

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

// mapAt reads a field that is an object; a missing one is empty.
func mapAt(fields map[string]any, name string) (map[string]any, error) {
	value := fields[name]
	if value == nil {
		return nil, nil
	}
	m, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s; expected an object", name, typeName(value))
	}
	return m, nil
}

// listAt reads a field that is a list; a missing one is empty.
func listAt(fields map[string]any, name string) ([]any, error) {
	value := fields[name]
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("metadata.%s is %s; expected a list", name, typeName(value))
	}
	return list, nil
}

func finalizers(metadata map[string]any) ([]string, error) {
	list, err := listAt(metadata, "finalizers")
	if err != nil {
		return nil, err
	}
	var names []string
	for i, item := range list {
		name, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("metadata.finalizers[%d] is %s; expected a string", i, typeName(item))
		}
		names = append(names, name)
	}
	return names, nil
}

// owner is an owner reference.
type owner struct {
	apiVersion, kind, name, uid string
}

// ownerReferences reads the references strictly: one that cannot be read could be the one that decides.
func ownerReferences(metadata map[string]any) ([]owner, error) {
	list, err := listAt(metadata, "ownerReferences")
	if err != nil {
		return nil, err
	}
	owners := make([]owner, len(list))
	for i, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("metadata.ownerReferences[%d] is %s; expected an object", i, typeName(item))
		}
		for name, to := range map[string]*string{
			"apiVersion": &owners[i].apiVersion, "kind": &owners[i].kind, "name": &owners[i].name, "uid": &owners[i].uid,
		} {
			if *to, ok = fields[name].(string); !ok {
				return nil, fmt.Errorf("metadata.ownerReferences[%d].%s is %s; expected a string", i, name, typeName(fields[name]))
			}
		}
	}
	return owners, nil
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
