// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Question is what is to be asked about one sandbox, or about every one of a pod (v1alpha1.AnySandbox).
type Question struct {
	SandboxID string
	// NodeUID and BootID are of a live read of the Node that is asked.
	NodeUID types.UID
	BootID  string
	Fence   bool
	// Living: the pod uses its addresses.
	Living bool
}

// QuestionsTo are those about some sandboxes to one Node as it was read live.
func QuestionsTo(node release.Node, sandboxes []string, fence bool) []Question {
	questions := make([]Question, 0, len(sandboxes))
	for _, id := range sandboxes {
		questions = append(questions, Question{SandboxID: id, NodeUID: node.NodeUID, BootID: node.BootID, Fence: fence})
	}
	return questions
}

// Ask sets marks in a record, all in one write, or sets them anew: each question gets an epoch of its own that no mark and no answer
// of the record has had. A record that was not created yet is. What comes back is the record as it was written, so that its
// resourceVersion is one that has the marks; the record that was given stays as it is. Who was overtaken by another write gets ErrStale.
func Ask(ctx context.Context, c client.Client, now time.Time, record *v1alpha1.IPAllocation, questions []Question) (*v1alpha1.IPAllocation, error) {
	if len(questions) == 0 {
		return record, nil
	}
	asking := record.DeepCopy()
	at := RoundUp(now)
	for _, q := range questions {
		mark := v1alpha1.Mark{SandboxID: q.SandboxID, NodeUID: q.NodeUID, BootID: q.BootID, Epoch: nextEpoch(record, q.SandboxID), Time: at, Fence: q.Fence, Living: q.Living}
		place := slices.IndexFunc(asking.Spec.Marks, func(m v1alpha1.Mark) bool { return m.SandboxID == q.SandboxID })
		if place < 0 {
			asking.Spec.Marks = append(asking.Spec.Marks, mark)
			continue
		}
		asking.Spec.Marks[place] = mark
	}
	if err := Put(ctx, c, asking); err != nil {
		return nil, err
	}
	for _, q := range questions {
		metrics.Marks.WithLabelValues(q.about()).Inc()
	}
	log.FromContext(ctx).Info("Asked", "record", asking.Name, "sandboxes", len(questions), "nodeUID", questions[0].NodeUID, "fence", questions[0].Fence)
	return asking, nil
}

func (q Question) about() string {
	switch {
	case q.SandboxID == v1alpha1.AnySandbox:
		return metrics.AskedAny
	case q.Fence:
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

// DropMarks takes out of a record the marks that nobody needs an answer to any more. An answer without its mark counts for nothing.
func DropMarks(record *v1alpha1.IPAllocation, over func(v1alpha1.Mark) bool) {
	record.Spec.Marks = slices.DeleteFunc(record.Spec.Marks, over)
	if len(record.Spec.Marks) == 0 {
		record.Spec.Marks = nil
	}
}
