// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// selfName is the variable of the policies' expressions: the whole object.
const selfName = "self"

// selfEnv is the API server's environment for expressions that are new to it, with the variable self. It also sets the
// limit of what one evaluation may cost (k8s.io/apiserver/pkg/apis/cel.PerCallLimit, about a tenth of a second).
var selfEnv = sync.OnceValues(func() (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
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
}

// compileString compiles an expression that gives a string, or a value whose type only an object can tell.
func compileString(text string) (*expression, error) {
	return compile(text, "string", func(t *cel.Type) bool { return t.IsExactType(cel.StringType) || isDyn(t) })
}

// compileStrings compiles an expression that gives a list of strings, nested or not, or what only an object can tell.
func compileStrings(text string) (*expression, error) {
	return compile(text, "list(string)", func(t *cel.Type) bool {
		return isDyn(t) || t.Kind() == types.ListKind && stringsOrLists(t.Parameters()[0])
	})
}

func stringsOrLists(t *cel.Type) bool {
	return t.IsExactType(cel.StringType) || isDyn(t) || t.Kind() == types.ListKind && stringsOrLists(t.Parameters()[0])
}

// isDyn says whether the type is known only when an object is there. A type parameter is what an empty list has.
func isDyn(t *cel.Type) bool {
	return t.Kind() == types.DynKind || t.Kind() == types.AnyKind || t.Kind() == types.TypeParamKind
}

func compile(text, expected string, gives func(*cel.Type) bool) (*expression, error) {
	env, err := selfEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("the expression does not compile: %w", issues.Err())
	}
	if !gives(ast.OutputType()) {
		return nil, fmt.Errorf("the expression gives %s; it has to give %s", ast.OutputType(), expected)
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be run: %w", err)
	}
	return &expression{text: text, program: program}, nil
}

// eval runs the expression on an object. The error is errNoSuchKey if it read a field or key that the object does not have.
func (e *expression) eval(object map[string]any) (ref.Val, error) {
	value, _, err := e.program.Eval(map[string]any{selfName: object})
	switch {
	case err == nil:
		return value, nil
	case strings.HasPrefix(err.Error(), noSuchKey):
		return nil, fmt.Errorf("evaluating %q: %w: %s", e.text, errNoSuchKey, strings.TrimPrefix(err.Error(), noSuchKey))
	default:
		return nil, fmt.Errorf("evaluating %q: %w", e.text, err)
	}
}

// noSuchKey begins the error of cel-go for a missing key; the library has no type for it.
const noSuchKey = "no such key: "

var errNoSuchKey = errors.New("the object has no such field")
