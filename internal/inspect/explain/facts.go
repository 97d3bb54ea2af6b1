// SPDX-License-Identifier: Apache-2.0

package explain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// Facts are what was read of one pod UID, live.
type Facts struct {
	// UID is the pod's, and Ref its name.
	UID types.UID
	Ref ipam.PodRef
	// Pod is the object: Absent when it is gone, or another UID has its name; that one is Namesake.
	Pod      release.Fact[*corev1.Pod]
	Namesake *corev1.Pod
	// Record is the UID's own IPAllocation, and Records are all others.
	Record  *v1alpha1.IPAllocation
	Records release.Fact[[]v1alpha1.IPAllocation]
	// Entries are those of every pool.
	Entries release.Fact[ipam.Snapshot]
	// Node is the Node object of the pod's node name.
	Node release.Fact[*corev1.Node]
	// Policies say whether admission policies keep other accounts from writing what a kubelet reports. They are only looked at with agents.
	Policies release.Fact[reportpolicy.Judgement]
	// Configuration is the manager's, and ConfigurationSource where it was read.
	Evidence            release.Evidence
	Settings            release.Settings
	GuardClusterNetwork bool
	ConfigurationSource string
	// Unserved are types that the API server does not serve: nothing of theirs is here.
	Unserved inspect.Unserved
	// Events are those about the pod and about its record.
	Events []inspect.Event
}

// pod is the object, or nil.
func (f *Facts) pod() *corev1.Pod {
	if f.Pod.IsKnown() {
		return f.Pod.Get()
	}
	return nil
}

func (f *Facts) nodeName() string {
	switch pod := f.pod(); {
	case pod != nil:
		return pod.Spec.NodeName
	case f.Record != nil:
		return f.Record.Spec.NodeName
	}
	return ""
}

// ending is what the kubelet reported: what the record once proved stays proven.
func (f *Facts) ending() release.Ending {
	if f.Record != nil && f.Record.Spec.Kubelet != nil && f.Record.Spec.Kubelet.Ending == v1alpha1.EndingFinished {
		return release.EndingFinished
	}
	if pod := f.pod(); pod != nil {
		return f.Evidence.Ending(pod, false, f.Policies.Get().Since) // what the manager saw is not shown anywhere
	}
	return f.recorded().Ending
}

// recorded is what the record remembers of a pod whose object is gone.
func (f *Facts) recorded() release.Pod {
	last := release.Pod{Deleting: true, Ending: release.EndingNone}
	if f.Record == nil {
		return last
	}
	last.Bound = f.Record.Spec.NodeName != ""
	if report := f.Record.Spec.Kubelet; report != nil {
		last.Ending = map[v1alpha1.KubeletEnding]release.Ending{
			v1alpha1.EndingFinished: release.EndingFinished, v1alpha1.EndingCompleted: release.EndingCompleted,
			v1alpha1.EndingRejected: release.EndingRejected,
		}[report.Ending]
	}
	last.Remember(f.Record)
	return last
}
