// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// endings are the terminations that a kubelet reports, in the form of records.
var endings = map[release.Ending]v1alpha1.KubeletEnding{
	release.EndingFinished:  v1alpha1.EndingFinished,
	release.EndingCompleted: v1alpha1.EndingCompleted,
	release.EndingRejected:  v1alpha1.EndingRejected,
}

// recordEnding records the kubelet's report of termination while entries remain, with the machine of the kubelet: the pod may be deleted before the
// entries are removed, and another machine may have the node's name by then.
func (r *Reconciler) recordEnding(ctx context.Context, v *view, record *v1alpha1.IPAllocation, now metav1.Time) error {
	ending, reported := endings[facts.Ending(v.podFact, v.record)]
	if !reported || len(v.held) == 0 {
		return nil
	}
	report := record.Spec.Kubelet
	switch {
	case report == nil:
		report = &v1alpha1.KubeletReport{Ending: ending, ObservedTime: nodelife.RoundUp(now.Time)}
		if written := facts.AsItIs(v.podFact, v.record).EndWritten; !written.IsZero() {
			report.WrittenTime = &metav1.Time{Time: written}
		}
		record.Spec.Kubelet = report
	case report.Ending != v1alpha1.EndingFinished:
		report.Ending = ending // of the same phase and writer
	}
	if report.Node != nil {
		return nil
	}
	return r.recordWriter(ctx, v, record)
}

// recordWriter reads the Node live, after the pod, for a new report; an older one without a machine waits for a live pass. A new report whose Node
// could not be read is not recorded yet: the next pass would treat it as an older one.
func (r *Reconciler) recordWriter(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	isNew := v.record == nil || v.record.Spec.Kubelet == nil
	node := v.node
	if !v.live && isNew {
		node = liveness.Node(ctx, r.live, v.nodeName())
	}
	if isNew && node.IsUnknown() {
		record.Spec.Kubelet = nil
		if v.live {
			return nil // the decision holds on the unknown fact
		}
		return fmt.Errorf("reading node %s, whose kubelet may have terminated %s (%w): %s", v.nodeName(), v.podName(), records.ErrStale, node.Why())
	}
	if (v.live || isNew) && node.IsKnown() && release.EndedUnder(facts.AsItIs(v.podFact, v.record), node.Get()) {
		record.Spec.Kubelet.Node = new(node.Get().Identity())
	}
	return nil
}

// livesOn says whether the pod has not terminated, by a live read after the view.
func (r *Reconciler) livesOn(ctx context.Context, v *view) (bool, error) {
	var pod corev1.Pod
	err := r.live.Get(ctx, types.NamespacedName(v.ref()), &pod)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s after its Node registered again: %w", v.podName(), err)
	}
	return err == nil && pod.UID == v.uid && release.PodEnding(&pod) == release.EndingNone, nil
}

// readdress updates the record after the same machine, in the same boot, registered a new Node object: its sandboxes belong to the new Node UID, but
// not the recorded writer of the pod's termination. It requires a live read.
func (r *Reconciler) readdress(ctx context.Context, v *view) error {
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
		return err // no later pass retries once the record has the new UID
	}
	if lives {
		record.Spec.AliveNodeUID = live.NodeUID // so that a later termination counts as reported under this Node
	}
	log.FromContext(ctx).Info("The node's machine registered again; the record follows", "node", record.Spec.NodeName, "nodeUID", live.NodeUID)
	return r.writeRecord(ctx, v, record)
}
