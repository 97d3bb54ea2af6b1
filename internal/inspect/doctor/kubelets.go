// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// kubelets: without agents, only a kubelet of 1.37 or later reports that a pod has no sandbox.
func kubelets(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "kubelets"
	if f.Configuration.IsKnown() && f.Configuration.Get().Evidence == configv1alpha1.EvidenceAgent {
		d.ok(name, "their report that a pod has no sandbox is not needed (evidence: Agent)")
		return
	}
	if !f.Nodes.IsKnown() {
		d.unread(name, f.Nodes.Why())
		return
	}
	old, oldest := 0, ""
	for i := range f.Nodes.Get() {
		kubelet := f.Nodes.Get()[i].Status.NodeInfo.KubeletVersion
		if !release.CannotReportNoSandbox(kubelet) {
			continue
		}
		if old++; oldest == "" || version.MustParseSemantic(kubelet).LessThan(version.MustParseSemantic(oldest)) {
			oldest = kubelet
		}
	}
	if old > 0 {
		d.add(Warn, name, fmt.Sprintf("%s is the oldest of %d below 1.37.0, which do not report that a pod has no sandbox (evidence: Kubelet)", oldest, old),
			"install the agents and set evidence: Agent, or upgrade the kubelets; until then a pod that its kubelet rejected is held")
		return
	}
	d.ok(name, "none is known to be below 1.37.0: each reports that a pod has no sandbox")
}
