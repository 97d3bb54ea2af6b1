// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestFits has the refusals of charts/holdfast/templates/checks.yaml.
func TestFits(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*testing.T, *Facts)
		planned Planned
		refusal string
	}{
		"everything fits": {func(_ *testing.T, f *Facts) { withAgents(f) }, Planned{Agents: true, AdmissionPolicy: true}, ""},
		"an API server that is too old": {func(_ *testing.T, f *Facts) { f.APIServer = release.Known("v1.30.14") }, Planned{},
			"the API server is Kubernetes v1.30.14: 1.31 or newer is needed"},
		"k3s without agents": {kubelets("v1.37.1+k3s1"), Planned{}, "no report of a kubelet releases an address"},
		"k3s with agents":    {func(t *testing.T, f *Facts) { kubelets("v1.37.1+k3s1")(t, f); withAgents(f) }, Planned{Agents: true}, ""},
		"agents as evidence, and none": {func(_ *testing.T, f *Facts) { withAgents(f) }, Planned{},
			"the configuration relies on agents (evidence: Agent), and the manifest has none"},
		"a kind that is not served": {func(_ *testing.T, f *Facts) {
			f.APIServer, f.MutatingPoliciesServed = release.Known("v1.33.4"), release.Known(false)
		}, Planned{AdmissionPolicy: true}, "the manifest has a MutatingAdmissionPolicy, and Kubernetes v1.33.4 does not serve version v1 of it"},
		"a kind that is not served, nor used": {func(_ *testing.T, f *Facts) { f.MutatingPoliciesServed = release.Known(false) }, Planned{}, ""},
		"a policy without pools": {func(_ *testing.T, f *Facts) { f.PoolsServed = release.Known(false) }, Planned{AdmissionPolicy: true},
			"the API server serves no IPPools: the policy would protect every pod that names a network"},
		"no pools and no policy":                       {func(_ *testing.T, f *Facts) { f.PoolsServed = release.Known(false) }, Planned{}, ""},
		"a Shadow that the API server protects beside": {func(_ *testing.T, f *Facts) { asShadow(f) }, Planned{AdmissionPolicy: true}, "the mode is Shadow, in which nothing is protected"},
		"a Shadow that refuses pods":                   {func(_ *testing.T, f *Facts) { asShadow(f) }, Planned{FailClosed: true}, "the mode is Shadow, in which nothing is protected"},
		"a Shadow":                                     {func(_ *testing.T, f *Facts) { asShadow(f) }, Planned{}, ""},
		"fail-closed":                                  {func(*testing.T, *Facts) {}, Planned{FailClosed: true}, ""},
		"an excluded namespace that the policy protects": {excluding("batch", "infra"), Planned{AdmissionPolicy: true, Exempt: []string{"infra"}},
			"protection.excludedNamespaces has batch, and the MutatingAdmissionPolicy protects the pods there"},
		"an excluded namespace that the policy exempts": {excluding("infra"), Planned{AdmissionPolicy: true, Exempt: []string{"infra"}}, ""},
		"an excluded namespace without the policy":      {excluding("infra"), Planned{}, ""},
		"an account that the policy does not name": {runBy("rke2-multus-rke2-whereabouts"), Planned{CNIAccounts: `["system:serviceaccount:kube-system:whereabouts"]`},
			"DaemonSet kube-system/cni runs CNI DEL as system:serviceaccount:kube-system:rke2-multus-rke2-whereabouts"},
		"an account that the policy names": {runBy("whereabouts"), Planned{CNIAccounts: `["system:serviceaccount:kube-system:whereabouts"]`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := wellInstalled(t)
			tc.change(t, f)
			var refusals []string
			for _, check := range Fits(f, tc.planned, now).Checks {
				if check.Level != OK {
					refusals = append(refusals, check.Found)
				}
			}
			if got := strings.Join(refusals, "\n"); (len(refusals) > 0) != (tc.refusal != "") || len(refusals) > 1 || !strings.Contains(got, tc.refusal) {
				t.Errorf("refused for %q, want %q", got, tc.refusal)
			}
		})
	}
}

// excluding names namespaces that the manager does not protect.
func excluding(namespaces ...string) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		c := *f.Configuration.Get()
		c.Protection.ExcludedNamespaces = namespaces
		f.Configuration = release.Known(&c)
	}
}

// runBy gives the DaemonSet that runs CNI DEL an account.
func runBy(account string) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cni"}}
		daemonSet.Spec.Template.Spec.ServiceAccountName = account
		f.DaemonSets = map[string]release.Fact[*appsv1.DaemonSet]{"kube-system/cni": release.Known(daemonSet)}
	}
}
