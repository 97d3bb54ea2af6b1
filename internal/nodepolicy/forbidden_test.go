// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"os" //nolint:depguard // the generated CRD is read, by the test only
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// A policy may have been stored before the CRD had a rule.
func TestCompileForbidsTheGroupsOfTheCRD(t *testing.T) {
	inRule := literals(t, groupRule(t))
	if len(inRule) != 18 {
		t.Errorf("the CRD's rule has %d groups, expected 18: %q", len(inRule), inRule)
	}
	for _, group := range inRule {
		_, err := nodepolicy.Compile(policy(guards(group, "things")))
		wantInvalid(t, err, v1alpha1.ReasonResourceForbidden, []string{"spec.resource", "could not be repaired"})
	}
}

// What belongs to a node in these groups may be guarded, or could be one day.
func TestTheCRDLeavesTheGroupsOfNodeScopedResources(t *testing.T) {
	for group, resource := range map[string]string{
		"resource.k8s.io": "resourceslices", "topology.node.k8s.io": "noderesourcetopologies", "cilium.io": "ciliumnodes",
		"crd.projectcalico.org": "blockaffinities", "network.openshift.io": "hostsubnets", "acn.azure.com": "nodenetworkconfigs",
	} {
		compile(t, guards(group, resource))
	}
	compile(t, guards("storage.k8s.io", "csinodes"), warning)
}

// groupRule is the rule of the generated CRD about whole groups.
func groupRule(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../config/crd/bases/holdfast.dev_noderesourcepolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		t.Fatal(err)
	}
	resource := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["resource"]
	for _, rule := range resource.XValidations {
		if strings.Contains(rule.Message, "resources of this group") {
			return rule.Rule
		}
	}
	t.Fatal("the CRD has no rule about groups")
	return ""
}

// literals are the sorted strings of an expression over self.
func literals(t *testing.T, expression string) []string {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	var found []string
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if text, ok := e.AsLiteral().(types.String); ok {
			found = append(found, string(text))
		}
	}))
	slices.Sort(found)
	return found
}
