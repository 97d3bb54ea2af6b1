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
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=kube-node-lease,resources=leases,verbs=get

const (
	// fateConfirmed is how often the absence of a node is confirmed, and written down, while the delay runs.
	fateConfirmed = time.Minute
	// fateGap is the longest time between two looks at Nodes of which the delay is counted: a Node that registers and is
	// deleted again while no manager looks leaves no trace.
	fateGap = 2 * fateConfirmed
)

// recordNodeFate keeps the persisted start of nodeGoneDelay (rows NodeDeleted and NodeReplaced). It begins, goes on and ends on live reads alone; each
// of them looks for a sign of life since the last one, which starts the delay again.
func (c *core) recordNodeFate(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	uids, gone := v.goneNodes(record)
	before := record.Spec.NodeGone
	switch {
	case !v.node.IsRead() || (!gone && before == nil):
		return nil
	case !v.live && gone && c.confirmedLately(before, uids):
		return nil // what it comes to is decided on live reads
	case !v.live:
		return fmt.Errorf("the node of %s is gone, or is back: %w", v.podName(), records.ErrStale)
	case !gone:
		record.Spec.NodeGone = nil
		return nil
	}
	seen, err := c.signsOfLife(ctx, v, record)
	if err != nil {
		v.fateUnread = err.Error()
	} else {
		record.Spec.NodeGone = nodeGoneNow(before, uids, seen, c.clock.Now(), c.watchedSince(before, v, record))
	}
	return nil // what could not be read is an unknown fact, on which the decision holds
}

// confirmedLately says whether a cached absence leads to nothing new.
func (c *core) confirmedLately(before *v1alpha1.NodeGone, uids []types.UID) bool {
	return before != nil && containsAll(before.NodeUIDs, uids) && c.clock.Now().Sub(before.ConfirmedTime.Time) < fateConfirmed
}

// watchedSince says whether Nodes were looked at since the last confirmation, by whatever record's look, and none was the one that is gone. With
// many records the looks of one may be far apart.
func (c *core) watchedSince(before *v1alpha1.NodeGone, v *view, record *v1alpha1.IPAllocation) bool {
	if before == nil {
		return false
	}
	var keys []string
	if v.node.IsAbsent() {
		keys = append(keys, nameKey(record.Spec.NodeName))
	}
	for i := range record.Spec.Sandboxes {
		if node := record.Spec.Sandboxes[i].Node; node != nil && slices.Contains(before.NodeUIDs, node.UID) {
			keys = append(keys, machineKeys(*node)...)
		}
	}
	return c.sightings.absentSince(before.ConfirmedTime.Time, keys...)
}

// nodeGoneNow is what a live look leaves in the record: the delay goes on, or begins.
func nodeGoneNow(before *v1alpha1.NodeGone, uids []types.UID, seen signs, now time.Time, watched bool) *v1alpha1.NodeGone {
	sign := signSince(before, seen)
	if before == nil || sign != "" || !containsAll(before.NodeUIDs, uids) || (!watched && now.Sub(before.ConfirmedTime.Time) > fateGap) {
		return &v1alpha1.NodeGone{NodeUIDs: uids, Since: records.RoundUp(now), ConfirmedTime: metav1.NewTime(now), SignOfLife: sign,
			LeaseRenewTime: seen.lease, KubeletWriteTime: seen.kubelet}
	}
	if now.Sub(before.ConfirmedTime.Time) < fateConfirmed {
		return before
	}
	confirmed := before.DeepCopy()
	confirmed.ConfirmedTime = metav1.NewTime(now)
	return confirmed
}

// fateDue is when the absence of the pod's node is to be confirmed next; zero if it need not be.
func (v *view) fateDue(after time.Duration) time.Duration {
	if v.record == nil || v.record.Spec.NodeGone == nil || after == 0 {
		return after
	}
	return min(after, fateConfirmed)
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
		if absent || release.Compare(release.MachineOf(*node), v.node.Get().Machine) == release.Replaced {
			uids = append(uids, node.UID)
		}
	}
	slices.Sort(uids)
	return uids, absent || len(uids) > 0
}

// needsFate: a pod that holds nothing has no record, but its delay must outlive this process too.
func (v *view) needsFate() bool {
	return v.node.IsAbsent() && v.podFact.IsKnown() && v.podFact.Get().Deleting && !facts.Ending(v.podFact, v.record).ByKubelet()
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
	case seen.kubelet != nil && (before.KubeletWriteTime == nil || before.KubeletWriteTime.Before(seen.kubelet)):
		return "its kubelet has written the status of a pod at " + seen.kubelet.UTC().Format(time.RFC3339)
	}
	return ""
}

// signsOfLife looks for the kubelet and for the machine. Where another machine has the node's name, the Lease and the
// statuses of its pods are that machine's, and only the old machine itself is looked for. Before the delay is over, lists
// that are some seconds old will do; then only those that were read since.
func (c *core) signsOfLife(ctx context.Context, v *view, record *v1alpha1.IPAllocation) (signs, error) {
	since := time.Time{}
	if gone := record.Spec.NodeGone; gone != nil {
		if over := gone.Since.Add(c.options.Settings.NodeGoneDelay); !c.clock.Now().Before(over) {
			since = over
		}
	}
	var seen signs
	var err error
	if v.node.IsAbsent() {
		if seen.lease, err = c.leaseRenewed(ctx, record.Spec.NodeName); err != nil {
			return seen, err
		}
		if seen.kubelet, err = c.sightings.kubeletWrote(ctx, record.Spec.NodeName, since); err != nil {
			return seen, err
		}
	}
	seen.machine, err = c.machineElsewhere(ctx, record, since)
	return seen, err
}

// leaseRenewed reads the node's Lease. The garbage collector takes it soon after its Node, and a kubelet cannot make it
// again without one (component-helpers, apimachinery/lease); until then it goes on renewing it.
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

// machineElsewhere finds a Node, of whatever name, whose machine is one that ran a sandbox.
func (c *core) machineElsewhere(ctx context.Context, record *v1alpha1.IPAllocation, since time.Time) (string, error) {
	machines, err := c.sightings.machines(ctx, since)
	if err != nil {
		return "", err
	}
	for i := range record.Spec.Sandboxes {
		if node := record.Spec.Sandboxes[i].Node; node != nil {
			if name, found := machines.find(*node); found {
				return name, nil
			}
		}
	}
	return "", nil
}

// findTwin looks for another Node with the IDs of a recorded machine where the live Node only resembles that one.
func (c *core) findTwin(ctx context.Context, v *view) error {
	if v.record == nil || !v.node.IsKnown() {
		return nil
	}
	for i := range v.record.Spec.Sandboxes {
		node := v.record.Spec.Sandboxes[i].Node
		if node == nil || release.Compare(release.MachineOf(*node), v.node.Get().Machine) != release.Resembling {
			continue
		}
		machines, err := c.sightings.machines(ctx, time.Time{})
		if err != nil {
			return err
		}
		if twin, found := machines.twin(*node, v.node.Get().Name); found {
			v.twin = twin
		}
	}
	return nil
}

func containsAll(all, some []types.UID) bool {
	return !slices.ContainsFunc(some, func(uid types.UID) bool { return !slices.Contains(all, uid) })
}

// readdress: the same boot of the same machine registered a new Node object. What was recorded under the old one is
// the new one's, and so is everything that will be asked about it, but not who wrote the pod's end. It rests on a live read; a
// cached one leads to it.
func (r *PodReconciler) readdress(ctx context.Context, v *view) error {
	if !v.live || v.record == nil || !v.node.IsKnown() {
		return nil
	}
	record, live := v.record.DeepCopy(), v.node.Get().Machine
	for i := range record.Spec.Sandboxes {
		if node := record.Spec.Sandboxes[i].Node; node != nil && release.Compare(release.MachineOf(*node), live) == release.Reregistered {
			node.UID = live.NodeUID
		}
	}
	lives, err := r.livesOn(ctx, v)
	if err != nil {
		return err // nothing asks again once the record follows
	}
	if lives {
		record.Spec.AliveNodeUID = live.NodeUID // so that the end, once it comes, is this Node's word
	}
	log.FromContext(ctx).Info("The node's machine registered again; the record follows", "node", record.Spec.NodeName, "nodeUID", live.NodeUID)
	return r.writeRecord(ctx, v, record)
}
