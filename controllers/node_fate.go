// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=kube-node-lease,resources=leases,verbs=get

// recordNodeFate keeps the persisted start of nodeGoneDelay (rows 6 and 9). It begins, goes on and ends on live reads alone; each
// of them looks for a sign of life since the last one, which starts the delay again.
func (c *core) recordNodeFate(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	uids, gone := v.goneNodes(record)
	before := record.Spec.NodeGone
	switch {
	case !v.node.IsRead() || (!gone && before == nil):
		return nil
	case !v.live && gone && before != nil && containsAll(before.NodeUIDs, uids):
		return nil // what it comes to is decided on live reads
	case !v.live:
		return fmt.Errorf("the node of %s is gone, or is back: %w", v.podName(), errStale)
	case !gone:
		record.Spec.NodeGone = nil
		return nil
	}
	seen, err := c.signsOfLife(ctx, v, record)
	if err != nil {
		v.fateUnread = err.Error()
		return nil
	}
	sign := signSince(before, seen)
	if before != nil && sign == "" && containsAll(before.NodeUIDs, uids) {
		return nil
	}
	record.Spec.NodeGone = &v1alpha1.NodeGone{NodeUIDs: uids, Since: roundUp(c.clock.Now()), SignOfLife: sign,
		LeaseRenewTime: seen.lease, KubeletWriteTime: seen.kubelet}
	return nil
}

// goneNodes are the Nodes of the record's sandboxes that are not there any more; gone is true too where there is no Node of the
// pod's node name, though nothing was recorded.
func (v *view) goneNodes(record *v1alpha1.IPAllocation) (uids []types.UID, gone bool) {
	absent := v.node.IsAbsent()
	for i := range record.Spec.Sandboxes {
		node := record.Spec.Sandboxes[i].Node
		if node == nil || slices.Contains(uids, node.UID) {
			continue
		}
		if absent || release.Compare(machineOf(*node), v.node.Get().Machine) == release.Replaced {
			uids = append(uids, node.UID)
		}
	}
	slices.Sort(uids)
	return uids, absent || len(uids) > 0
}

// needsFate: a pod that holds nothing has no record, but its delay must outlive this process too.
func (v *view) needsFate() bool {
	return v.node.IsAbsent() && v.podFact.IsKnown() && v.podFact.Get().Deleting && !v.ending().ByKubelet()
}

// signs is what there is to see of a node's kubelet and machine.
type signs struct {
	lease   *metav1.MicroTime
	kubelet *metav1.Time
	// machine names the Node under which a recorded machine is registered now; empty if none.
	machine string
}

// signSince says what has changed since the delay began; empty if nothing has. What was there before it began is none.
func signSince(before *v1alpha1.NodeGone, seen signs) string {
	switch {
	case seen.machine != "":
		return "its machine is registered as node " + seen.machine
	case before == nil:
		return ""
	case seen.lease != nil && (before.LeaseRenewTime == nil || !seen.lease.Equal(before.LeaseRenewTime)):
		return "its kubelet has renewed the node's Lease at " + seen.lease.UTC().Format(time.RFC3339)
	case seen.kubelet != nil && (before.KubeletWriteTime == nil || !seen.kubelet.Equal(before.KubeletWriteTime)):
		return "its kubelet has written the pod's status at " + seen.kubelet.UTC().Format(time.RFC3339)
	}
	return ""
}

// signsOfLife looks for the kubelet and for the machine. Where another machine has the node's name, the Lease and the
// pod's status are that machine's, and only the machine itself is looked for.
func (c *core) signsOfLife(ctx context.Context, v *view, record *v1alpha1.IPAllocation) (signs, error) {
	var seen signs
	var err error
	if v.node.IsAbsent() {
		if seen.lease, err = c.leaseRenewed(ctx, record.Spec.NodeName); err != nil {
			return seen, err
		}
		seen.kubelet = kubeletWrote(v.pod)
	}
	seen.machine, err = c.machineElsewhere(ctx, record)
	return seen, err
}

// leaseRenewed reads the Lease that a kubelet goes on renewing while its Node object is gone.
func (c *core) leaseRenewed(ctx context.Context, node string) (*metav1.MicroTime, error) {
	var lease coordinationv1.Lease
	err := c.live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Lease of node %s for a sign of life: %w", node, err)
	}
	return lease.Spec.RenewTime, nil
}

// kubeletWrote is when a kubelet last wrote the pod's status; nil if the object does not say.
func kubeletWrote(pod *corev1.Pod) *metav1.Time {
	if pod == nil {
		return nil
	}
	var last *metav1.Time
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		if release.IsKubelet(entry) && entry.Subresource == "status" && entry.Time != nil && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}

// machineElsewhere finds a Node, of whatever name, whose machine is one that ran a sandbox. Before the delay is over a cached
// Node will do; once it is over, only a list read since shows that there is none.
func (c *core) machineElsewhere(ctx context.Context, record *v1alpha1.IPAllocation) (string, error) {
	since := time.Time{}
	if gone := record.Spec.NodeGone; gone != nil {
		if over := gone.Since.Add(c.options.Settings.NodeGoneDelay); !c.clock.Now().Before(over) {
			since = over
		}
	}
	machines, err := c.machines.list(ctx, since)
	if err != nil {
		return "", err
	}
	for i := range record.Spec.Sandboxes {
		node := record.Spec.Sandboxes[i].Node
		if node == nil || node.MachineID == "" || node.SystemUUID == "" {
			continue // such a machine is known by its Node's UID alone
		}
		if name, found := machines[hardware{node.MachineID, node.SystemUUID}]; found {
			return name, nil
		}
	}
	return "", nil
}

func containsAll(all, some []types.UID) bool {
	return !slices.ContainsFunc(some, func(uid types.UID) bool { return !slices.Contains(all, uid) })
}

// roundUp keeps a persisted time, which has whole seconds, from making a delay shorter.
func roundUp(t time.Time) metav1.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		t = whole.Add(time.Second)
	}
	return metav1.NewTime(t)
}

// readdress is row 7: the same boot of the same machine registered a new Node object. What was recorded under the old one is
// the new one's, and so is everything that will be asked about it. It rests on a live read; a cached one leads to it.
func (r *PodReconciler) readdress(ctx context.Context, v *view) error {
	if !v.live || v.record == nil || !v.node.IsKnown() {
		return nil
	}
	record, live := v.record.DeepCopy(), v.node.Get().Machine
	for i := range record.Spec.Sandboxes {
		if node := record.Spec.Sandboxes[i].Node; node != nil && release.Compare(machineOf(*node), live) == release.Reregistered {
			node.UID = live.NodeUID
		}
	}
	log.FromContext(ctx).Info("The node's machine registered again; the record follows", "node", record.Spec.NodeName, "nodeUID", live.NodeUID)
	return r.writeRecord(ctx, v, record)
}
