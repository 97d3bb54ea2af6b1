// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

var authority = []byte("an authority")

func service() nodepolicy.Target {
	return nodepolicy.Target{Service: &admissionregistrationv1.ServiceReference{Namespace: "holdfast-system", Name: "holdfast-webhook"}}
}

func TestEntry(t *testing.T) {
	target := service()
	got := compile(t, failing).Entry(target, authority)
	want := admissionregistrationv1.ValidatingWebhook{
		Name: "ciliumnodes.node-resource.holdfast.dev",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{
				Namespace: "holdfast-system", Name: "holdfast-webhook", Path: new("/validate-node-resource/ciliumnodes"), Port: new(int32(443)),
			},
			CABundle: authority,
		},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"cilium.io"}, APIVersions: []string{"*"}, Resources: []string{"ciliumnodes", "ciliumnodes/status"},
				Scope: new(admissionregistrationv1.ScopeType("*")),
			},
		}},
		FailurePolicy:           new(admissionregistrationv1.FailurePolicyType("Fail")),
		MatchPolicy:             new(admissionregistrationv1.MatchPolicyType("Equivalent")),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClass("None")),
		TimeoutSeconds:          new(int32(2)),
		AdmissionReviewVersions: []string{"v1"},
	}
	ignore := cmpopts.IgnoreFields(admissionregistrationv1.ValidatingWebhook{}, "MatchConditions")
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if target.Service.Path != nil || target.Service.Port != nil {
		t.Error("the target was changed")
	}
}

func TestEntryFollowsThePolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		edits     []edit
		bundle    []byte
		resources []string
		failure   admissionregistrationv1.FailurePolicyType
		versions  []string
		timeout   int32
	}{
		"as said":                          {nil, authority, []string{"ciliumnodes", "ciliumnodes/status"}, "Ignore", []string{"*"}, 2},
		"Fail":                             {of(failing), authority, []string{"ciliumnodes", "ciliumnodes/status"}, "Fail", []string{"*"}, 2},
		"Fail, but nothing to trust it by": {of(failing), nil, []string{"ciliumnodes", "ciliumnodes/status"}, "Ignore", []string{"*"}, 2},
		"Fail, but an empty authority":     {of(failing), []byte{}, []string{"ciliumnodes", "ciliumnodes/status"}, "Ignore", []string{"*"}, 2},
		"Warn":                             {of(warning), authority, []string{"ciliumnodes", "ciliumnodes/status"}, "Ignore", []string{"*"}, 2},
		"one version, no status, 1 second": {of(func(s *v1alpha1.NodeResourcePolicySpec) {
			s.Resource.Versions, s.Resource.Status, s.TimeoutSeconds = []string{"v2"}, new(false), 1
		}), authority, []string{"ciliumnodes"}, "Ignore", []string{"v2"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := compile(t, tc.edits...).Entry(service(), tc.bundle)
			if diff := cmp.Diff(tc.resources, got.Rules[0].Resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.versions, got.Rules[0].APIVersions); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if *got.FailurePolicy != tc.failure || *got.TimeoutSeconds != tc.timeout {
				t.Errorf("failurePolicy %s, timeoutSeconds %d; want %s, %d", *got.FailurePolicy, *got.TimeoutSeconds, tc.failure, tc.timeout)
			}
		})
	}
}

func TestEntryOfAnURL(t *testing.T) {
	for _, base := range []string{"https://192.0.2.1:9443", "https://192.0.2.1:9443/"} {
		got := compile(t).Entry(nodepolicy.Target{URL: base}, authority).ClientConfig
		want := admissionregistrationv1.WebhookClientConfig{
			URL: new("https://192.0.2.1:9443/validate-node-resource/ciliumnodes"), CABundle: authority,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("clientConfig of %s (-want +got):\n%s", base, diff)
		}
	}
}

// An entry that is changed in place must not reach the next one.
func TestEntriesShareNothing(t *testing.T) {
	c := compile(t)
	first := c.Entry(service(), authority)
	first.MatchConditions[0].Expression = "false"
	first.Rules[0].APIVersions[0] = "v9"
	first.ClientConfig.CABundle[0] = 'A'
	if diff := cmp.Diff(compile(t).Entry(service(), []byte("an authority")), c.Entry(service(), authority)); diff != "" {
		t.Errorf("entry after a change of another (-want +got):\n%s", diff)
	}
}
