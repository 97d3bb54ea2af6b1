// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

// selfName is the variable of the expressions: the whole object.
const selfName = "self"

// selfEnv is the environment of the oldest supported API server for new expressions, with the variable self. It limits the cost of an evaluation
// (k8s.io/apiserver/pkg/apis/cel.PerCallLimit, about a tenth of a second).
var selfEnv = sync.OnceValues(func() (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(kubeversion.Expressions).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable(selfName, cel.DynType)},
	})
	if err != nil {
		return nil, fmt.Errorf("extending the CEL environment with %s: %w", selfName, err)
	}
	return set.Env(environment.NewExpressions)
})

// expression is a compiled expression over self. It is safe for concurrent use.
type expression struct {
	text    string
	program cel.Program
	// paths are the fields of the object that it reads.
	paths [][]string
}

// compileString compiles an expression whose type is string or dynamic.
func compileString(text string) (*expression, error) {
	return compile(text, "string", func(t *cel.Type) bool { return t.IsExactType(cel.StringType) || isDyn(t) })
}

// compileStrings compiles an expression whose type is a list of strings, nested or not, or dynamic.
func compileStrings(text string) (*expression, error) {
	return compile(text, "list(string)", func(t *cel.Type) bool {
		return isDyn(t) || t.Kind() == types.ListKind && stringsOrLists(t.Parameters()[0])
	})
}

func stringsOrLists(t *cel.Type) bool {
	return t.IsExactType(cel.StringType) || isDyn(t) || t.Kind() == types.ListKind && stringsOrLists(t.Parameters()[0])
}

// isDyn reports whether the type is known at evaluation only. An empty list has a type parameter.
func isDyn(t *cel.Type) bool {
	return t.Kind() == types.DynKind || t.Kind() == types.AnyKind || t.Kind() == types.TypeParamKind
}

func compile(text, expected string, gives func(*cel.Type) bool) (*expression, error) {
	env, err := selfEnv()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("the expression does not compile on Kubernetes %s, the oldest that is supported: %w", kubeversion.Oldest, issues.Err())
	}
	if !gives(checked.OutputType()) {
		return nil, fmt.Errorf("the expression gives %s; it has to give %s", checked.OutputType(), expected)
	}
	program, err := env.Program(checked)
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be run: %w", err)
	}
	return &expression{text: text, program: program, paths: selfPaths(checked)}, nil
}

// noSuchKey begins the error of cel-go for a missing field or key; the library exports no type for it.
const noSuchKey = "no such key: "

// errNoSuchField reports that the expression reads a field that the object does not have.
var errNoSuchField = errors.New("the object has no such field")

// eval runs the expression on an object. A field that the object itself does not have is errNoSuchField; one that an
// element of a list does not have is any error.
func (e *expression) eval(object map[string]any) (ref.Val, error) {
	value, _, err := e.program.Eval(map[string]any{selfName: object})
	if err == nil {
		return value, nil
	}
	key, missing := strings.CutPrefix(err.Error(), noSuchKey)
	switch {
	case !missing:
		return nil, fmt.Errorf("evaluating %q: %w", e.text, err)
	case e.lacks(object, key):
		return nil, fmt.Errorf("evaluating %q: %w: %q; test it with has() first", e.text, errNoSuchField, key)
	default:
		return nil, fmt.Errorf("evaluating %q: an element of a list or map has no field %q; "+
			"leave such elements out, for example with map(x, has(x.%s), x.%s)", e.text, key, key, key)
	}
}

// lacks reports whether one of the expression's own paths ends where the object has no such key.
func (e *expression) lacks(object map[string]any, key string) bool {
	return slices.ContainsFunc(e.paths, func(path []string) bool {
		var value any = object
		for _, name := range path {
			fields, ok := value.(map[string]any)
			if !ok {
				return false
			}
			if value, ok = fields[name]; !ok {
				return name == key
			}
		}
		return false
	})
}

// selfPaths are the paths of fields that an expression reads from self. One that it only tests with has() is none.
func selfPaths(checked *cel.Ast) [][]string {
	var paths [][]string
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if path := selfPath(e); len(path) > 0 {
			paths = append(paths, path)
		}
	}))
	return paths
}

// selfPath is the path of an expression such as self.a["b"]; nil if it is no such expression.
func selfPath(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == selfName {
			return []string{}
		}
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return extend(selfPath(s.Operand()), s.FieldName())
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Index && call.Args()[1].Kind() == ast.LiteralKind {
			if key, ok := call.Args()[1].AsLiteral().(types.String); ok {
				return extend(selfPath(call.Args()[0]), string(key))
			}
		}
	default:
	}
	return nil
}

func extend(path []string, name string) []string {
	if path == nil {
		return nil
	}
	return append(path, name)
}
