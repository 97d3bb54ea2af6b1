// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

// Planned is what a manifest would install, beside the configuration in Facts.
type Planned struct {
	// Agents: it has the DaemonSet of the agents. AdmissionPolicy: it has a MutatingAdmissionPolicy. FailClosed: pods are refused while no replica responds.
	Agents, AdmissionPolicy, FailClosed bool
	// Exempt are the namespaces that the MutatingAdmissionPolicy leaves out by name.
	Exempt []string
	// CNIAccounts is the expression with the accounts that may still remove entries, empty without the component refuse-foreign-removals.
	CNIAccounts string
}

// Fits judges, before an installation, whether a cluster fits it: the combinations that the chart refuses.
func Fits(f *Facts, p Planned, now time.Time) *Diagnosis {
	d := &Diagnosis{TypeMeta: inspect.Type("Diagnosis"), group: "Before the installation"}
	configuration(d, f, now)
	const version, agents, policy, removals = "API server", "evidence", "admission-policy-protection", "refuse-foreign-removals"
	if err := kubeversion.Check(f.APIServer.Get()); err != nil {
		d.add(Fail, version, err.Error(), "upgrade the cluster: the manager does not start on it")
	}
	d.ok(version, "Kubernetes %s", f.APIServer.Get())
	shared(d, f, now)
	if evidenceIs(f, configv1alpha1.EvidenceAgent) && !p.Agents {
		d.add(Fail, agents, "the configuration relies on agents (evidence: Agent), and the manifest has none: addresses would be held for ever",
			"install the agents (config/agent), or set evidence to Kubelet")
	}
	if p.AdmissionPolicy && d.knows(policy, f.MutatingPoliciesServed) && !f.MutatingPoliciesServed.Get() {
		d.add(Fail, policy, fmt.Sprintf("the manifest has a MutatingAdmissionPolicy, and Kubernetes %s does not serve version v1 of it (on by default from 1.36)", f.APIServer.Get()),
			"leave the component admission-policy-protection out: the webhook protects pods without it")
	}
	if p.AdmissionPolicy && d.knows(policy, f.PoolsServed) && !f.PoolsServed.Get() {
		d.add(Fail, policy, "the manifest has a MutatingAdmissionPolicy, and the API server serves no IPPools: the policy would protect every pod that names a network, and none would be unprotected",
			"install whereabouts first, or leave the component admission-policy-protection out")
	}
	protectors(d, f, p)
	if p.CNIAccounts != "" {
		removers(d, f, removals, p.CNIAccounts)
	}
	return d
}

// protectors protect without the manager, and so without its configuration.
func protectors(d *Diagnosis, f *Facts, p Planned) {
	if isShadow(f) && (p.AdmissionPolicy || p.FailClosed) {
		d.add(Fail, "mode", "the mode is Shadow, in which nothing is protected or refused, and the manifest has a MutatingAdmissionPolicy or a protecting webhook with failurePolicy Fail",
			"leave the components admission-policy-protection and fail-closed out")
	}
	if !f.Configuration.IsKnown() {
		return
	}
	excluded := sets.New(f.Configuration.Get().Protection.ExcludedNamespaces...).Delete(p.Exempt...)
	if p.AdmissionPolicy && len(excluded) > 0 {
		d.add(Warn, "excluded namespaces", fmt.Sprintf("protection.excludedNamespaces has %s, and the MutatingAdmissionPolicy protects the pods there all the same", strings.Join(sets.List(excluded), ", ")),
			"name them in its namespaceSelector too, or give them the label holdfast.dev/guard=off")
	}
}

// removers: the component refuse-foreign-removals names the accounts of the DaemonSets that run CNI DEL.
func removers(d *Diagnosis, f *Facts, name, accounts string) {
	for _, key := range sets.List(sets.KeySet(f.DaemonSets)) {
		if !f.DaemonSets[key].IsKnown() {
			continue // another CNI may come later
		}
		daemonSet := f.DaemonSets[key].Get()
		account := "system:serviceaccount:" + daemonSet.Namespace + ":" + cmp.Or(daemonSet.Spec.Template.Spec.ServiceAccountName, "default")
		if !strings.Contains(accounts, `"`+account+`"`) {
			d.add(Fail, name, fmt.Sprintf("DaemonSet %s runs CNI DEL as %s, and the policy holdfast-foreign-removals does not name that account: each DEL would be refused", key, account),
				"name it in the policy's variable cniAccounts")
		}
	}
	d.ok(name, "the policy names the account of each DaemonSet in unsafeReleases.daemonSets")
}
