// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

func TestAClusterThatDoesNotFitIsRefused(t *testing.T) {
	const kubelet, agent = configv1alpha1.EvidenceKubelet, configv1alpha1.EvidenceAgent
	micro := `{"items": [{"metadata": {"name": "micro-1"}}]}`
	for name, tc := range map[string]struct {
		version, nodes string
		evidence       configv1alpha1.Evidence
		refusal        string
	}{
		"the oldest Kubernetes":          {`{"gitVersion": "v1.31.0"}`, `{"items": []}`, kubelet, ""},
		"one below the oldest":           {`{"gitVersion": "v1.30.14"}`, `{"items": []}`, agent, "the API server is Kubernetes v1.30.14: 1.31 or newer is needed"},
		"no version":                     {`no JSON`, `{"items": []}`, agent, "reading the version of the API server"},
		"k3s without agents":             {`{"gitVersion": "v1.33.4+k3s1"}`, `{"items": []}`, kubelet, "the cluster is k3s (Kubernetes v1.33.4+k3s1), on which kubelet and pod garbage collector"},
		"k3s with agents":                {`{"gitVersion": "v1.33.4+k3s1"}`, `no JSON`, agent, ""},
		"MicroK8s without agents":        {`{"gitVersion": "v1.33.4"}`, micro, kubelet, "the cluster has nodes of MicroK8s (micro-1), on which"},
		"MicroK8s with agents":           {`{"gitVersion": "v1.33.4"}`, micro, agent, ""},
		"RKE2 without agents":            {`{"gitVersion": "v1.33.4+rke2r1"}`, `{"items": []}`, kubelet, ""},
		"nodes that could not be listed": {`{"gitVersion": "v1.33.4"}`, `no JSON`, kubelet, "looking for nodes of MicroK8s"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/version":
				fmt.Fprint(w, tc.version)
			case r.URL.Path == "/api/v1/nodes" && r.URL.Query().Get("labelSelector") == "microk8s.io/cluster":
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, tc.nodes)
			}
		}))
		err := checkKubernetes(t.Context(), &rest.Config{Host: server.URL}, tc.evidence)
		server.Close()
		if (err != nil) != (tc.refusal != "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
			t.Errorf("%s: %v, want %q", name, err, tc.refusal)
		}
	}
}
