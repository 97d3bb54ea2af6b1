// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// question is what is to be asked about one sandbox, or about every one of a pod (v1alpha1.AnySandbox).
type question struct {
	sandboxID string
	// nodeUID and bootID are of a live read of the Node that is asked; both are empty where all are.
	nodeUID types.UID
	bootID  string
	fence   bool
	// living: the pod uses its addresses.
	living bool
}

// questionsTo are those about some sandboxes to one Node as it was read live.
func questionsTo(node release.Node, sandboxes []string, fence bool) []question {
	questions := make([]question, 0, len(sandboxes))
	for _, id := range sandboxes {
		questions = append(questions, question{sandboxID: id, nodeUID: node.NodeUID, bootID: node.BootID, fence: fence})
	}
	return questions
}

// ask sets marks in a record, all in one write, or sets them anew: each question gets an epoch of its own that no mark and no answer
// of the record has had. A record that was not created yet is. What comes back is the record as it was written, so that its
// resourceVersion is one that has the marks; the record that was given stays as it is. Who was overtaken by another write gets errStale.
func (c *core) ask(ctx context.Context, record *v1alpha1.IPAllocation, questions []question) (*v1alpha1.IPAllocation, error) {
	if len(questions) == 0 {
		return record, nil
	}
	asking := record.DeepCopy()
	now := roundUp(c.clock.Now())
	for _, q := range questions {
		mark := v1alpha1.Mark{SandboxID: q.sandboxID, NodeUID: q.nodeUID, BootID: q.bootID, Epoch: nextEpoch(record, q.sandboxID), Time: now, Fence: q.fence, Living: q.living}
		at := slices.IndexFunc(asking.Spec.Marks, func(m v1alpha1.Mark) bool { return m.SandboxID == q.sandboxID })
		if at < 0 {
			asking.Spec.Marks = append(asking.Spec.Marks, mark)
			continue
		}
		asking.Spec.Marks[at] = mark
	}
	if err := c.putRecord(ctx, asking); err != nil {
		return nil, err
	}
	for _, q := range questions {
		metrics.Marks.WithLabelValues(q.about()).Inc()
	}
	log.FromContext(ctx).Info("Asked", "record", asking.Name, "sandboxes", len(questions), "nodeUID", questions[0].nodeUID, "fence", questions[0].fence)
	return asking, nil
}

func (q question) about() string {
	switch {
	case q.nodeUID == "":
		return metrics.AskedAll
	case q.sandboxID == v1alpha1.AnySandbox:
		return metrics.AskedAny
	case q.fence:
		return metrics.AskedFenced
	}
	return metrics.AskedSandbox
}

// nextEpoch is greater than every epoch that a question about the sandbox has had in this record, also of questions that were taken
// back and left nothing behind: a record's generation grows with each write of its spec, and no two writes have the same.
func nextEpoch(record *v1alpha1.IPAllocation, sandboxID string) int64 {
	epoch := record.Generation + 1
	for i := range record.Spec.Marks {
		if m := &record.Spec.Marks[i]; m.SandboxID == sandboxID {
			epoch = max(epoch, m.Epoch+1)
		}
	}
	for i := range record.Status.Answers {
		if a := &record.Status.Answers[i]; a.SandboxID == sandboxID {
			epoch = max(epoch, a.Epoch+1)
		}
	}
	return epoch
}

// putRecord creates a record that has no version yet, and updates any other.
func (c *core) putRecord(ctx context.Context, record *v1alpha1.IPAllocation) error {
	record.Spec.IPs = ipsOf(record)
	var err error
	if record.ResourceVersion == "" {
		err = c.client.Create(ctx, record, client.FieldOwner(finalizer.FieldManager))
	} else {
		err = c.client.Update(ctx, record, client.FieldOwner(finalizer.FieldManager))
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return fmt.Errorf("writing the record %s (%w): %w", record.Name, errStale, err)
	}
	if err != nil {
		return fmt.Errorf("writing the record %s: %w", record.Name, err)
	}
	return nil
}

// ipsOf are the addresses of a record, each once.
func ipsOf(record *v1alpha1.IPAllocation) []string {
	var all []string
	for i := range record.Spec.Addresses {
		all = append(all, record.Spec.Addresses[i].IP)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// dropMarks takes out of a record the marks that nobody needs an answer to any more. An answer without its mark counts for nothing.
func dropMarks(record *v1alpha1.IPAllocation, over func(v1alpha1.Mark) bool) {
	record.Spec.Marks = slices.DeleteFunc(record.Spec.Marks, over)
	if len(record.Spec.Marks) == 0 {
		record.Spec.Marks = nil
	}
}

// dropMarksOver drops the marks about sandboxes that the record has no more; without agents every one.
func (c *core) dropMarksOver(record *v1alpha1.IPAllocation) {
	dropMarks(record, func(m v1alpha1.Mark) bool {
		return c.options.Evidence != release.EvidenceAgent || (m.SandboxID != v1alpha1.AnySandbox &&
			!slices.ContainsFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == m.SandboxID }))
	})
}

// dropVoidQueries takes the queries back to which the decision needs no answer.
func (r *PodReconciler) dropVoidQueries(ctx context.Context, v *view, d release.Decision) error {
	void := func(m v1alpha1.Mark) bool { return v.isVoid(d, m) }
	if v.record == nil || !slices.ContainsFunc(v.record.Spec.Marks, void) {
		return nil
	}
	record := v.record.DeepCopy()
	dropMarks(record, void)
	return r.writeRecord(ctx, v, record)
}

// isVoid: the pod lives, and no query about it is still to be answered; or the query is one for any sandbox, and the pod lives or holds something
// after all that is not only withheld.
func (v *view) isVoid(d release.Decision, m v1alpha1.Mark) bool {
	lives := v.podFact.IsKnown() && !v.podFact.Get().Deleting
	holds := slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return d.Withheld == nil || !slices.Contains(d.Withheld.Sandboxes, held.SandboxID)
	})
	return (d.Action == release.Keep && !d.Asking) || (m.SandboxID == v1alpha1.AnySandbox && (lives || holds))
}
