// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

// wire is where calls arrive that a gate let through.
type wire struct{ body string }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		w.body = string(content)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

const (
	takesOff   = `{"metadata":{"uid":"u","$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`
	relabels   = `{"metadata":{"uid":"u","labels":{"holdfast.dev/guarded":"true"}}}`
	unprotects = `{"metadata":{"uid":"u","$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"],"labels":{"holdfast.dev/guarded":null}}}`
)

func TestTheGateLetsThroughWhatIsOnTheList(t *testing.T) {
	const (
		pod   = "/api/v1/namespaces/apps/pods/web-0"
		pools = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system"
	)
	cases := map[string]struct {
		method, path, body string
		passes             bool
	}{
		"a read of a pod":                             {"GET", pod, "", true},
		"a watch of pools":                            {"GET", pools + "/ippools?watch=true", "", true},
		"an event":                                    {"POST", "/apis/events.k8s.io/v1/namespaces/apps/events", "{}", true},
		"a series of events":                          {"PATCH", "/apis/events.k8s.io/v1/namespaces/apps/events/e", "{}", true},
		"an event of the old kind":                    {"POST", "/api/v1/namespaces/apps/events", "{}", true},
		"the leader's Lease":                          {"PUT", "/apis/coordination.k8s.io/v1/namespaces/holdfast-system/leases/holdfast-manager", "{}", true},
		"a record":                                    {"POST", "/apis/holdfast.dev/v1alpha1/ipallocations", "{}", true},
		"the status of a policy":                      {"PATCH", "/apis/holdfast.dev/v1alpha1/noderesourcepolicies/p/status", "{}", true},
		"who reads the metrics":                       {"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "{}", true},
		"whether they may":                            {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "{}", true},
		"the generated webhooks":                      {"PUT", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/holdfast-node-resources", "{}", true},
		"taking our finalizer off":                    {"PATCH", pod, takesOff, true},
		"the same through the status":                 {"PATCH", pod + "/status", takesOff, true},
		"taking finalizer and label off":              {"PATCH", pod, unprotects, true},
		"putting the label back":                      {"PATCH", pod, relabels, true},
		"a ConfigMap of another client":               {"PUT", "/api/v1/namespaces/apps/configmaps/c", "{}", false},
		"the webhook that protects":                   {"PUT", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast-protect", "{}", false},
		"an entry of a pool":                          {"PATCH", pools + "/ippools/p", "{}", false},
		"the making of a reservation":                 {"POST", pools + "/overlappingrangeipreservations", "{}", false},
		"the removal of a reservation":                {"DELETE", pools + "/overlappingrangeipreservations/r", "", false},
		"a slice":                                     {"PATCH", pools + "/nodeslicepools/s", "{}", false},
		"the deletion of a node-scoped object":        {"DELETE", "/apis/cilium.io/v2/ciliumnodes/node-a", "", false},
		"the deletion of many":                        {"DELETE", "/apis/cilium.io/v2/ciliumnodes", "", false},
		"the deletion of a pod":                       {"DELETE", pod, "", false},
		"the eviction of a pod":                       {"POST", pod + "/eviction", takesOff, false},
		"an update of a pod":                          {"PUT", pod, takesOff, false},
		"a finalizer":                                 {"PATCH", pod, `{"metadata":{"uid":"u","finalizers":["holdfast.dev/ip-allocation"],"labels":{"holdfast.dev/guarded":"true"}}}`, false},
		"a finalizer without a UID":                   {"PATCH", pod, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`, false},
		"the finalizer of another client":             {"PATCH", pod, `{"metadata":{"uid":"u","$deleteFromPrimitiveList/finalizers":["other"]}}`, false},
		"ours and that of another client":             {"PATCH", pod, `{"metadata":{"uid":"u","$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation","other"]}}`, false},
		"a label of another client":                   {"PATCH", pod, `{"metadata":{"uid":"u","labels":{"app":"x"}}}`, false},
		"the label and a label of another client":     {"PATCH", pod, `{"metadata":{"uid":"u","labels":{"holdfast.dev/guarded":"true","app":"x"}}}`, false},
		"an annotation":                               {"PATCH", pod, `{"metadata":{"uid":"u","annotations":{"a":"b"}}}`, false},
		"a condition":                                 {"PATCH", pod + "/status", `{"metadata":{"uid":"u"},"status":{"conditions":[]}}`, false},
		"two patches in one":                          {"PATCH", pod, takesOff + `{"spec":{}}`, false},
		"a patch that is no JSON":                     {"PATCH", pod, "x", false},
		"a write of what is no resource":              {"POST", "/metrics", "", false},
		"a token of an account":                       {"POST", "/api/v1/namespaces/apps/serviceaccounts/a/token", "{}", false},
		"a path in which our group is only mentioned": {"POST", "/apis/apps/v1/namespaces/holdfast.dev/deployments", "{}", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			arrived := &wire{}
			config := &rest.Config{Host: "https://proxy/clusters/one", Transport: arrived}
			Guard(config)
			request, err := http.NewRequestWithContext(t.Context(), tc.method, "https://proxy/clusters/one"+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			before := series.Sum(t, "holdfast_shadow_blocked_total")
			response, err := config.WrapTransport(arrived).RoundTrip(request)
			if err == nil {
				response.Body.Close()
			}
			switch {
			case tc.passes && (err != nil || arrived.body != tc.body):
				t.Errorf("got error %v and body %q, expected the call to arrive whole", err, arrived.body)
			case !tc.passes && (!errors.Is(err, ErrBlocked) || arrived.body != ""):
				t.Errorf("got error %v and body %q, expected the call to be stopped", err, arrived.body)
			case !tc.passes && series.Sum(t, "holdfast_shadow_blocked_total") != before+1:
				t.Error("expected a call that was stopped to be counted")
			}
		})
	}
}
