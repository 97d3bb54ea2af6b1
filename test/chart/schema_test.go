// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the schema and the reference of the chart's values instead of comparing them")

const (
	schemaFile    = "charts/holdfast/values.schema.json"
	configuration = "api/config/v1alpha1"
)

// schema is a JSON schema, or a part of one.
type schema = map[string]any

// TestSchema keeps the parts of the schema that are the binaries' configuration as their Go types say.
func TestSchema(t *testing.T) {
	var want strings.Builder
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(wantedSchema(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		write(t, filepath.Join(repository, schemaFile), want.String())
		return
	}
	if diff := cmp.Diff(want.String(), read(t, schemaFile)); diff != "" {
		t.Errorf("%s is not as %s says: run `make chart` (-want +got)\n%s", schemaFile, configuration, diff)
	}
}

// wantedSchema is the schema with the configurations as their types say now.
func wantedSchema(t *testing.T) schema {
	t.Helper()
	root, types := schema{}, parseTypes(t)
	if err := json.Unmarshal([]byte(read(t, schemaFile)), &root); err != nil {
		t.Fatal(err)
	}
	properties(root, "manager")["configuration"] = types.configuration("ManagerConfiguration", "The manager's configuration (configuration.md). What is left out has its default.")
	properties(root, "agent")["configuration"] = types.configuration("AgentConfiguration", "The agents' configuration (agent-configuration.md). What is left out has its default.")
	return root
}

// TestSchemaIsClosedAndDescribed: no object has properties that it does not name, and everything has a description.
func TestSchemaIsClosedAndDescribed(t *testing.T) {
	walk("", wantedSchema(t), func(path string, s schema) {
		if s["description"] == nil {
			t.Errorf("%s has no description", path)
		}
		if s["properties"] != nil && !reflect.DeepEqual(s["additionalProperties"], false) {
			t.Errorf("%s admits properties that it does not name", path)
		}
	})
}

// walk visits every schema of a value, with its path.
func walk(path string, s schema, visit func(string, schema)) {
	visit(path, s)
	for name, property := range asSchema(s["properties"]) {
		walk(strings.TrimPrefix(path+"."+name, "."), asSchema(property), visit)
	}
	if items := asSchema(s["items"]); items["type"] == "object" {
		walk(path+"[]", items, visit)
	}
}

func asSchema(value any) schema {
	s, _ := value.(schema)
	return s
}

func properties(root schema, name string) schema {
	return asSchema(asSchema(asSchema(root["properties"])[name])["properties"])
}

// goTypes are the types of the configuration, as they are written: the comments of their fields are the descriptions.
type goTypes struct {
	types map[string]ast.Expr
	// constants are the values of each named string.
	constants map[string][]any
}

func parseTypes(t *testing.T) goTypes {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, configuration, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", configuration, len(files), err)
	}
	found := goTypes{types: map[string]ast.Expr{}, constants: map[string][]any{}}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, found.add)
	}
	return found
}

func (g goTypes) add(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.TypeSpec:
		g.types[n.Name.Name] = n.Type
	case *ast.ValueSpec:
		named, ok := n.Type.(*ast.Ident)
		if !ok {
			break
		}
		for _, value := range n.Values {
			if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				g.constants[named.Name] = append(g.constants[named.Name], strings.Trim(literal.Value, `"`))
			}
		}
	}
	return true
}

// configuration is the schema of a file of a kind, without apiVersion and kind, which the chart itself writes.
func (g goTypes) configuration(kind, description string) schema {
	s := g.schema(g.types[kind])
	s["description"] = description
	return s
}

// duration is what time.ParseDuration takes, without signs.
const duration = `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`

func (g goTypes) schema(expression ast.Expr) schema {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return g.schema(e.X)
	case *ast.ArrayType:
		return schema{"type": "array", "items": g.schema(e.Elt)}
	case *ast.SelectorExpr: // metav1.Duration, the only one
		return schema{"type": "string", "pattern": duration}
	case *ast.StructType:
		return g.structure(e)
	case *ast.Ident:
		return g.named(e.Name)
	}
	return nil
}

func (g goTypes) named(name string) schema {
	basic := map[string]string{"string": "string", "bool": "boolean", "int32": "integer", "float32": "number"}
	switch {
	case basic[name] != "":
		return schema{"type": basic[name]}
	case len(g.constants[name]) > 0:
		return schema{"enum": g.constants[name]}
	}
	return g.schema(g.types[name])
}

func (g goTypes) structure(s *ast.StructType) schema {
	fields := schema{}
	for _, field := range s.Fields.List {
		name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
		if name == "" { // inlined
			continue
		}
		fields[name] = g.schema(field.Type)
		asSchema(fields[name])["description"] = strings.Join(strings.Fields(field.Doc.Text()), " ")
	}
	return schema{"type": "object", "additionalProperties": false, "properties": fields}
}
