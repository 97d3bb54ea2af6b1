// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// TestTheGeneratedConditionsCompileEverywhere: whichever shape a policy has, on every supported API server.
func TestTheGeneratedConditionsCompileEverywhere(t *testing.T) {
	for minor := version.MustParseGeneric(kubeversion.Oldest); !version.MustParseGeneric(kubeversion.Newest).LessThan(minor); minor = minor.AddMinor(1) {
		compiler := nodepolicy.NewCompiler(kubeversion.CEL(minor))
		for name, edits := range map[string][]edit{
			"by name":                      nil,
			"at a path":                    {nodeNameAt("spec.node")},
			"by an expression":             {nodeNameIs("has(self.spec.node) ? self.spec.node : ''")},
			"in an annotation":             {uidIn("a.example/uid")},
			"in an annotation, if present": {uidIn("a.example/uid"), ifPresent},
			"if present":                   {ifPresent},
			"exempting, and with prefixes": {exempting("jane"), holding("self.spec.ips"), missingDenied},
		} {
			if _, err := compiler.Compile(policy(edits...)); err != nil {
				t.Errorf("%s on %s: %v", name, minor, err)
			}
		}
	}
}

func TestAnExpressionThatIsTooNewIsRefused(t *testing.T) {
	tooNew := policy(nodeNameIs("[self.spec.node].exists(i, v, v != '') ? self.spec.node : ''")) // two-variable comprehensions: 1.33
	for minor, accepted := range map[uint]bool{31: false, 32: false, 33: true, 37: true} {
		_, err := nodepolicy.NewCompiler(kubeversion.CEL(version.MajorMinor(1, minor))).Compile(tooNew)
		if (err == nil) != accepted || err != nil && !strings.Contains(err.Error(), "spec.nodeName.expression") {
			t.Errorf("1.%d: %v", minor, err)
		}
	}
}
