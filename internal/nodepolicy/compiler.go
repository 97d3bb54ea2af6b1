// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Compiler compiles policies as an API server of one version does; a nil one, as the newest that is known. It is safe for concurrent use.
type Compiler struct {
	// self gives the environment of expressions over the variable self. It also sets the limit of what one
	// evaluation may cost (k8s.io/apiserver/pkg/apis/cel.PerCallLimit, about a tenth of a second).
	self func() (*cel.Env, error)
	// conditions is what the API server checks the match conditions of a new webhook with.
	conditions func() plugincel.Compiler
}

// NewCompiler makes a compiler for a compatibility version of CEL: that of the API server, see internal/kubeversion.
func NewCompiler(compatibility *version.Version) *Compiler {
	set := sync.OnceValue(func() *environment.EnvSet { return environment.MustBaseEnvSet(compatibility) })
	return &Compiler{
		self: sync.OnceValues(func() (*cel.Env, error) {
			extended, err := set().Extend(environment.VersionedOptions{
				IntroducedVersion: version.MajorMinor(1, 0),
				EnvOptions:        []cel.EnvOption{cel.Variable(selfName, cel.DynType)},
			})
			if err != nil {
				return nil, fmt.Errorf("extending the CEL environment with %s: %w", selfName, err)
			}
			return extended.Env(environment.NewExpressions)
		}),
		conditions: sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(set()) }),
	}
}

// newest knows all that this version of the libraries does.
var newest = NewCompiler(environment.DefaultCompatibilityVersion())

// Compile checks a policy for the newest API server that is known; see Compiler.Compile.
func Compile(p *v1alpha1.NodeResourcePolicy) (*Compiled, error) { return newest.Compile(p) }
