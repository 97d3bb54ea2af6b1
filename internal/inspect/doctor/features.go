// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// reportsNoSandbox is the first kubelet that reports that a pod has no sandbox (internal/release, PodTornDown).
var reportsNoSandbox = version.MajorMinor(1, 37)

// features: one line for what this Kubernetes lacks of what Holdfast can use. That nothing is lacking is not worth a line.
func features(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "features"
	var lacking []string
	switch {
	case !f.MutatingPoliciesServed.IsKnown():
		d.unread(name, f.MutatingPoliciesServed.Why())
		return
	case !f.MutatingPoliciesServed.Get():
		lacking = append(lacking, "the API server serves no MutatingAdmissionPolicy v1 (on by default from 1.36), so that the webhook alone protects new pods")
	}
	old, nodes := oldKubelets(f)
	if old > 0 {
		lacking = append(lacking, fmt.Sprintf("%d of %d kubelets are older than %s and do not report that a pod has no sandbox", old, nodes, reportsNoSandbox))
	}
	found := strings.Join(lacking, "; ")
	switch {
	case found == "":
	case old > 0 && f.Configuration.IsKnown() && f.Configuration.Get().Evidence == configv1alpha1.EvidenceKubelet:
		d.add(Warn, name, found, "run agents (evidence Agent): without them a pod that PodGC ended, or that its kubelet rejected, waits until its Node is deleted or tainted out-of-service")
	default:
		d.ok(name, "%s", found)
	}
}

// oldKubelets counts the Nodes that report a kubelet below reportsNoSandbox.
func oldKubelets(f *Facts) (old, all int) {
	if !f.Nodes.IsKnown() {
		return 0, 0
	}
	nodes := f.Nodes.Get()
	for i := range nodes {
		if v, err := version.ParseGeneric(nodes[i].Status.NodeInfo.KubeletVersion); err == nil && v.LessThan(reportsNoSandbox) {
			old++
		}
	}
	return old, len(nodes)
}

// shared: where kubelet and controller manager are one process, only agents show that a sandbox is gone (docs/decisions/0283).
func shared(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "field manager of the kubelets"
	if !f.Nodes.IsKnown() || !f.Configuration.IsKnown() {
		return // each has a line of its own that says so
	}
	nodes := 0
	for i := range f.Nodes.Get() {
		if isSharedKubelet(&f.Nodes.Get()[i]) {
			nodes++
		}
	}
	found := fmt.Sprintf("on %d of %d nodes kubelet and controller manager are one program (k3s, MicroK8s) and write under one field manager", nodes, len(f.Nodes.Get()))
	switch {
	case nodes == 0:
	case f.Configuration.Get().Evidence == configv1alpha1.EvidenceKubelet:
		d.add(Fail, name, found+", and there are no agents (evidence: Kubelet): no report of a kubelet releases an address", "install the agents, and set evidence to Agent")
	default:
		d.ok(name, "%s: agents are queried where an entry is left", found)
	}
}

// isSharedKubelet goes by k3s' version and by the label that MicroK8s gives its nodes.
func isSharedKubelet(node *corev1.Node) bool {
	_, micro := node.Labels["microk8s.io/cluster"]
	return micro || strings.Contains(node.Status.NodeInfo.KubeletVersion, "+k3s")
}
