// SPDX-License-Identifier: Apache-2.0

// Package nodegone tells what has become of a Node, and of the machine that it was: since when it is gone, and whether anything shows that the
// machine lives.
package nodegone

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=kube-node-lease,resources=leases,verbs=get

const (
	// Confirmed is how often the absence of a node is confirmed, and written down, while the delay runs.
	Confirmed = time.Minute
	// maxGap is the longest time between two looks at Nodes of which the delay is counted: a Node that registers and is
	// deleted again while no manager looks leaves no trace.
	maxGap = 2 * Confirmed
)

// Record keeps in the record of an orphan the persisted start of nodeGoneDelay (rows NodeDeleted and NodeReplaced), by its Node, which was read live. Each
// call looks for signs that the machine is alive since the last one, which starts the delay again.
func (f *Observer) Record(ctx context.Context, record *v1alpha1.IPAllocation, node release.Fact[release.Node]) error {
	machines := facts.GoneMachines(node, record)
	switch {
	case !node.IsRead():
		return nil
	case !node.IsAbsent() && len(machines) == 0:
		record.Spec.NodeGone = nil
		return nil
	}
	var uids []types.UID
	for _, machine := range machines {
		uids = append(uids, machine.UID)
	}
	slices.Sort(uids)
	gone, err := f.Of(ctx, record, node, slices.Compact(uids))
	if err == nil {
		record.Spec.NodeGone = gone
	}
	return err
}

// Of is what a live look for the machines of a record, whose Nodes of these UIDs are gone, leaves there.
func (f *Observer) Of(ctx context.Context, record *v1alpha1.IPAllocation, node release.Fact[release.Node], uids []types.UID) (*v1alpha1.NodeGone, error) {
	seen, err := f.signsOfLife(ctx, record, node)
	if err != nil {
		return nil, err
	}
	before := record.Spec.NodeGone
	return nodeGoneNow(before, uids, seen, f.clock.Now(), f.watchedSince(before, record, node)), nil
}

// watchedSince says whether Nodes were looked at since the last confirmation, by whatever record's look, and none was the one that is gone. With
// many records the looks of one may be far apart.
func (f *Observer) watchedSince(before *v1alpha1.NodeGone, record *v1alpha1.IPAllocation, node release.Fact[release.Node]) bool {
	if before == nil {
		return false
	}
	var keys []string
	if node.IsAbsent() {
		keys = append(keys, nameKey(record.Spec.NodeName))
	}
	for i := range record.Spec.Sandboxes {
		if ran := record.Spec.Sandboxes[i].Node; ran != nil && slices.Contains(before.NodeUIDs, ran.UID) {
			keys = append(keys, machineKeys(*ran)...)
		}
	}
	return f.absentSince(before.ConfirmedTime.Time, keys...)
}

// nodeGoneNow is what a live look leaves in the record: the delay goes on, or begins.
func nodeGoneNow(before *v1alpha1.NodeGone, uids []types.UID, seen signs, now time.Time, watched bool) *v1alpha1.NodeGone {
	sign := signSince(before, seen)
	if before == nil || sign != "" || !containsAll(before.NodeUIDs, uids) || (!watched && now.Sub(before.ConfirmedTime.Time) > maxGap) {
		return &v1alpha1.NodeGone{NodeUIDs: uids, Since: records.RoundUp(now), ConfirmedTime: metav1.NewTime(now), SignOfLife: sign,
			LeaseRenewTime: seen.lease, KubeletWriteTime: seen.kubelet}
	}
	if now.Sub(before.ConfirmedTime.Time) < Confirmed {
		return before
	}
	confirmed := before.DeepCopy()
	confirmed.ConfirmedTime = metav1.NewTime(now)
	return confirmed
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
	}
	return nodelife.Kubelet{LeaseRenewed: seen.lease, Wrote: seen.kubelet}.LivenessSince(nodelife.Kubelet{LeaseRenewed: before.LeaseRenewTime, Wrote: before.KubeletWriteTime})
}

// signsOfLife looks for the kubelet and for the machine. Where another machine has the node's name, the Lease and the
// statuses of its pods are that machine's, and only the old machine itself is looked for. Before the delay is over, lists
// that are some seconds old will do; then only those that were read since.
func (f *Observer) signsOfLife(ctx context.Context, record *v1alpha1.IPAllocation, node release.Fact[release.Node]) (signs, error) {
	since := time.Time{}
	if gone := record.Spec.NodeGone; gone != nil {
		if over := gone.Since.Add(f.delay); !f.clock.Now().Before(over) {
			since = over
		}
	}
	var seen signs
	var err error
	if node.IsAbsent() {
		if seen.lease, err = f.leaseRenewed(ctx, record.Spec.NodeName); err != nil {
			return seen, err
		}
		if seen.kubelet, err = f.kubeletWrote(ctx, record.Spec.NodeName, since); err != nil {
			return seen, err
		}
	}
	seen.machine, err = f.machineElsewhere(ctx, record, since)
	return seen, err
}

// leaseRenewed reads the node's Lease. The garbage collector takes it soon after its Node, and a kubelet cannot make it
// again without one (component-helpers, apimachinery/lease); until then it goes on renewing it.
func (f *Observer) leaseRenewed(ctx context.Context, node string) (*metav1.MicroTime, error) {
	var lease coordinationv1.Lease
	err := f.live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Lease of node %s for signs that the machine is alive: %w", node, err)
	}
	return lease.Spec.RenewTime, nil
}

// machineElsewhere finds a Node, of whatever name, whose machine is one that ran a sandbox.
func (f *Observer) machineElsewhere(ctx context.Context, record *v1alpha1.IPAllocation, since time.Time) (string, error) {
	machines, err := f.machines(ctx, since)
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

// Twin is another Node with the IDs of a recorded machine, where the live Node only resembles that one; empty where there is none.
func (f *Observer) Twin(ctx context.Context, record *v1alpha1.IPAllocation, node release.Fact[release.Node]) (twin string, err error) {
	if record == nil || !node.IsKnown() {
		return "", nil
	}
	for i := range record.Spec.Sandboxes {
		ran := record.Spec.Sandboxes[i].Node
		if ran == nil || release.Compare(release.MachineOf(*ran), node.Get().Machine) != release.Resembling {
			continue
		}
		machines, err := f.machines(ctx, time.Time{})
		if err != nil {
			return "", err
		}
		if name, found := machines.twin(*ran, node.Get().Name); found {
			twin = name
		}
	}
	return twin, nil
}

func containsAll(all, some []types.UID) bool {
	return !slices.ContainsFunc(some, func(uid types.UID) bool { return !slices.Contains(all, uid) })
}

// Observe reads a Node. Nothing is known of one without a name: the pod was never bound.
func Observe(ctx context.Context, from client.Reader, name string) release.Fact[release.Node] {
	if name == "" {
		return release.Fact[release.Node]{}
	}
	var node corev1.Node
	err := from.Get(ctx, types.NamespacedName{Name: name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return release.Absent[release.Node]()
	case err != nil:
		return release.Unknown[release.Node](err.Error())
	}
	return release.Known(facts.Node(&node))
}

// Kubelet is what there is to see of a node's kubelet. What was read before since is not used.
func (f *Observer) Kubelet(ctx context.Context, node string, since time.Time) (seen nodelife.Kubelet, err error) {
	if seen.LeaseRenewed, err = f.leaseRenewed(ctx, node); err != nil {
		return seen, err
	}
	seen.Wrote, err = f.kubeletWrote(ctx, node, since)
	return seen, err
}
