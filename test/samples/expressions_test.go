// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// TestEveryExpressionCompilesOnEverySupportedVersion compiles the expressions of every manifest and patch under config/ as the API server of
// each supported minor version does, and the match conditions that the manager makes of each NodeResourcePolicy. The chart has copies of them.
func TestEveryExpressionCompilesOnEverySupportedVersion(t *testing.T) {
	objects := manifests(t)
	for v := kubeversion.Oldest; !v.GreaterThan(kubeversion.Newest); v = v.AddMinor(1) {
		t.Run(v.String(), func(t *testing.T) {
			found := map[string]int{}
			for _, m := range objects {
				if m.kind == kubeversion.MutatingAdmissionPolicy.Name && !kubeversion.MutatingAdmissionPolicy.ServedBy(v) {
					continue
				}
				n, errs := apiserver.Expressions(m.object, v)
				for _, err := range errs {
					t.Errorf("%s, %s: %v", m.file, m.kind, err)
				}
				if n > 0 {
					found[m.kind] += n
				}
			}
			// Nothing that is read wrongly may pass as something without expressions.
			for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
				"CustomResourceDefinition", "NodeResourcePolicy"} {
				if found[kind] == 0 {
					t.Errorf("no expression of a %s was found", kind)
				}
			}
			t.Logf("compiled: %v", found)
		})
	}
}

// TestAnExpressionOfALaterVersionIsFound: two-variable comprehensions came with Kubernetes 1.32, and a server accepts them in new objects from 1.33 on.
func TestAnExpressionOfALaterVersionIsFound(t *testing.T) {
	later := object(t, "ValidatingWebhookConfiguration", &admissionregistrationv1.ValidatingWebhookConfiguration{
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "later", Expression: "object.status.allocations.exists(i, a, a != oldObject.status.allocations[i])"}}}}})
	for minor, fails := range map[uint]bool{31: true, 32: true, 33: false, 37: false} {
		if n, errs := apiserver.Expressions(later, version.MajorMinor(1, minor)); n != 1 || (len(errs) > 0) != fails {
			t.Errorf("1.%d: %d expressions, errors %v; want one that fails: %t", minor, n, errs, fails)
		}
	}
}

type manifest struct {
	file, kind string
	object     map[string]any
}

// manifests are all objects under config/; of a NodeResourcePolicy there is also the webhook that the manager makes of it.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var all []manifest
	for _, file := range below(t, "config", ".yaml") {
		for document := range strings.SplitSeq("\n"+read(t, file), "\n---\n") {
			m := manifest{file: file}
			if err := yaml.Unmarshal([]byte(document), &m.object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			m.kind, _ = m.object["kind"].(string)
			if m.kind == "NodeResourcePolicy" {
				m.object = webhookOf(t, document)
			}
			all = append(all, m)
		}
	}
	return all
}

func webhookOf(t *testing.T, document string) map[string]any {
	t.Helper()
	var policy v1alpha1.NodeResourcePolicy
	if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
		t.Fatal(err)
	}
	compiled, err := nodepolicy.Compile(&policy)
	if err != nil {
		t.Fatal(err)
	}
	entry := compiled.Entry(nodepolicy.Target{}, nil)
	return object(t, "ValidatingWebhookConfiguration", &admissionregistrationv1.ValidatingWebhookConfiguration{
		Webhooks: []admissionregistrationv1.ValidatingWebhook{entry}})
}

func object(t *testing.T, kind string, typed any) map[string]any {
	t.Helper()
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	o["kind"] = kind
	return o
}
