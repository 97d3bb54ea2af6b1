// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
)

// TestWhatKubernetesDoesNotServeIsRefused: a version below the oldest supported one, and the admission policy where no API server would take it.
func TestWhatKubernetesDoesNotServeIsRefused(t *testing.T) {
	const policies, pools = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", "--api-versions=whereabouts.cni.cncf.io/v1alpha1/IPPool"
	withPolicy := values{"protection": values{"admissionPolicy": true}}
	withoutAgents := values{"agent": values{"enabled": false}, "manager": values{"configuration": values{"evidence": "Kubelet"}}}
	const refusal = "does not serve MutatingAdmissionPolicy v1"
	for name, tc := range map[string]struct {
		given   values
		args    []string
		refusal string
	}{
		"the oldest":                                 {nil, []string{"--kube-version=v1.31.0"}, ""},
		"one of a provider":                          {nil, []string{"--kube-version=v1.33.5-eks-3025e55"}, ""},
		"k3s with agents":                            {nil, []string{"--kube-version=v1.33.4+k3s1"}, ""},
		"k3s without agents":                         {withoutAgents, []string{"--kube-version=v1.33.4+k3s1"}, "there are no agents"},
		"one below the oldest":                       {nil, []string{"--kube-version=v1.30.14"}, "chart requires kubeVersion: >=1.31.0-0"},
		"the policy by version":                      {withPolicy, []string{"--kube-version=v1.36.0"}, ""},
		"the policy by an older version":             {withPolicy, []string{"--kube-version=v1.35.4"}, refusal},
		"the policy where a server serves it":        {withPolicy, []string{"--kube-version=v1.36.0", "--api-versions=v1/Pod", policies, pools}, ""},
		"the policy without pools":                   {withPolicy, []string{"--kube-version=v1.36.0", "--api-versions=v1/Pod", policies}, "the API server serves no IPPools"},
		"the policy where a server has it turned on": {withPolicy, []string{"--kube-version=v1.35.4", "--api-versions=v1/Pod", policies, pools}, ""},
		"the policy where it is turned off":          {withPolicy, []string{"--kube-version=v1.36.0", "--api-versions=v1/Pod"}, refusal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, tc.given, append([]string{"template", "holdfast", chart, "--namespace=" + own}, tc.args...)...)
			if (err != nil) != (tc.refusal != "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("got %v, want %q", err, tc.refusal)
			}
		})
	}
}
