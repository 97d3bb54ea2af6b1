// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// What the doctor asks for is what the roles give: a right that no role gives would be a failure on every cluster.
func TestEachRightThatTheDoctorAsksForIsGivenByARole(t *testing.T) {
	for file, needed := range map[string][]need{
		"../../../config/rbac/role.yaml": neededRights, "../../../config/agent/role.yaml": neededByAgents,
	} {
		rules := rulesOf(t, file)
		for _, r := range needed {
			resource := strings.TrimSuffix(r.resource+"/"+r.subresource, "/")
			for verb := range strings.FieldsSeq(r.verbs) {
				if !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
					return slices.Contains(rule.APIGroups, r.group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
				}) {
					t.Errorf("the doctor asks whether the account may %s %s of group %q, and no role of %s gives it", verb, resource, r.group, file)
				}
			}
		}
	}
}

// rulesOf are those of all roles in a file.
func rulesOf(t *testing.T, file string) []rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		var role rbacv1.ClusterRole
		switch err := decoder.Decode(&role); {
		case errors.Is(err, io.EOF):
			return rules
		case err != nil:
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
}
