// SPDX-License-Identifier: Apache-2.0

package nodelife

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Kubelet has the signs of a node's kubelet.
type Kubelet struct {
	// LeaseRenewed is the renewTime of the node's Lease; nil without one.
	LeaseRenewed *metav1.MicroTime
	// Wrote is when a kubelet last wrote the status of a pod of the node; nil if no pod shows it.
	Wrote *metav1.Time
}

// KubeletOf are the signs when a machine was found to be gone.
func KubeletOf(gone *v1alpha1.MachineGone) Kubelet {
	return Kubelet{LeaseRenewed: gone.LeaseRenewTime, Wrote: gone.KubeletWriteTime}
}

// LivenessSince says what the kubelet has written since an earlier observation; empty if nothing. Earlier writes are no sign that it is alive.
func (k Kubelet) LivenessSince(before Kubelet) string {
	switch {
	case k.LeaseRenewed != nil && (before.LeaseRenewed == nil || !k.LeaseRenewed.Equal(before.LeaseRenewed)):
		return "its kubelet has renewed the node's Lease at " + k.LeaseRenewed.UTC().Format(time.RFC3339)
	case k.Wrote != nil && (before.Wrote == nil || before.Wrote.Before(k.Wrote)):
		return "its kubelet has written the status of a pod at " + k.Wrote.UTC().Format(time.RFC3339)
	}
	return ""
}
