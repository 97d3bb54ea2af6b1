// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decode reads one YAML document into the struct that target points to, by its json tags, and lists every mistake.
// The decoders of the libraries stop at the first value of a wrong type; this one reads field by field, and leaves
// each value to encoding/json. A field with a mistake keeps its zero value.
func decode(content []byte, target any) field.ErrorList {
	root, err := parse(content)
	if err != nil {
		return field.ErrorList{whole(err.Error())}
	}
	d := &decoder{}
	d.structure(nil, root, reflect.ValueOf(target).Elem())
	return d.mistakes
}

// parse gives the only document's top node.
func parse(content []byte) (*yaml.Node, error) {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	var document, another yaml.Node
	switch err := documents.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty; it needs at least apiVersion and kind")
	case err != nil:
		return nil, fmt.Errorf("not readable as YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := documents.Decode(&another); !errors.Is(err, io.EOF) {
		return nil, errors.New("expected one YAML document, found more after the first")
	}
	return resolve(document.Content[0]), nil
}

type decoder struct {
	mistakes field.ErrorList
}

func (d *decoder) add(mistake *field.Error) { d.mistakes = append(d.mistakes, mistake) }

// structure decodes a mapping into a struct.
func (d *decoder) structure(path *field.Path, node *yaml.Node, target reflect.Value) {
	if isNull(node) {
		return
	}
	if node.Kind != yaml.MappingNode {
		d.add(typeMistake(path, node, "a mapping of fields"))
		return
	}
	fields := fieldsOf(target)
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		at := path.Child(key.Value) // a nil path is the root
		if first, twice := lines[key.Value]; twice {
			d.add(field.Duplicate(at, fmt.Sprintf("line %d, first on line %d", key.Line, first)))
			continue
		}
		lines[key.Value] = key.Line
		destination, known := fields[key.Value]
		switch {
		case !known:
			d.add(unknownField(at, key, fields))
		case isStructure(destination):
			d.structure(at, value, destination)
		default:
			d.leaf(at, value, destination)
		}
	}
}

// leaf decodes anything else: a scalar, a list, or what reads itself.
func (d *decoder) leaf(path *field.Path, node *yaml.Node, target reflect.Value) {
	if target.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode {
		d.list(path, node, target)
		return
	}
	var value any
	err := node.Decode(&value)
	if err != nil {
		d.add(typeMistake(path, node, describe(target.Type())))
		return
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, target.Addr().Interface())
	}
	if err != nil {
		target.SetZero() // a failed Unmarshal leaves pointers behind
	}
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
	case errors.As(err, &wrongType), node.Kind != yaml.ScalarNode:
		d.add(typeMistake(path, node, describe(target.Type())))
	default:
		d.add(field.Invalid(path, node.Value, fmt.Sprintf("line %d: %s", node.Line, err)))
	}
}

func (d *decoder) list(path *field.Path, node *yaml.Node, target reflect.Value) {
	list := reflect.MakeSlice(target.Type(), 0, len(node.Content))
	for i, item := range node.Content {
		element := reflect.New(target.Type().Elem()).Elem()
		if found := len(d.mistakes); isNull(resolve(item)) {
			d.add(typeMistake(path.Index(i), resolve(item), describe(element.Type())))
		} else if d.leaf(path.Index(i), resolve(item), element); len(d.mistakes) == found {
			list = reflect.Append(list, element)
		}
	}
	if list.Len() == len(node.Content) {
		target.Set(list)
	}
}

// fieldsOf are a struct's fields by their json names, those of inlined structs among them.
func fieldsOf(structure reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(structure.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = structure.FieldByIndex(f.Index)
		}
	}
	return fields
}

// isStructure is true for a struct that does not read itself from JSON, as metav1.Duration does.
func isStructure(value reflect.Value) bool {
	if value.Kind() != reflect.Struct {
		return false
	}
	switch value.Addr().Interface().(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return false
	}
	return true
}

func unknownField(path *field.Path, key *yaml.Node, known map[string]reflect.Value) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("line %d: unknown field; known here: %s",
		key.Line, strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
}

func typeMistake(path *field.Path, node *yaml.Node, expected string) *field.Error {
	found := map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}[node.Kind]
	if found == "" {
		found = fmt.Sprintf("%q", node.Value)
	}
	if path == nil {
		return whole(fmt.Sprintf("line %d: expected %s, found %s", node.Line, expected, found))
	}
	return field.TypeInvalid(path, field.OmitValueType{}, fmt.Sprintf("line %d: expected %s, found %s", node.Line, expected, found))
}

// wholeFile stands where the path of a field does.
const wholeFile = "(the file)"

// whole is a mistake that no field can be blamed for.
func whole(detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, Field: wholeFile, BadValue: field.OmitValueType{}, Detail: detail}
}

// describe names a type as the writer of a file knows it.
func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem())
	case reflect.Slice:
		return "a list, each item " + describe(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	default:
		return `a duration such as "30s" or "5m"`
	}
}

// resolve follows an alias to its anchor.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }
