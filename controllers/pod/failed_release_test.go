// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestAReleaseThatFailsIsExplained: the record's state is Releasing, and record and pod have the error of the first try.
func TestAReleaseThatFailsIsExplained(t *testing.T) {
	f := newWorld(t, finishedAfter(time.Minute), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	for i, refusal := range []string{"the pool is refused", "the pool is refused again"} {
		f.Pool.FailsRelease = errors.New(refusal)
		if err := f.after(time.Duration(i+1) * time.Hour); !errors.Is(err, f.Pool.FailsRelease) {
			t.Fatalf("error %v, want the pool's", err)
		}
		record := f.Record()
		if record.Status.State != v1alpha1.StateReleasing {
			t.Errorf("state %q, want Releasing", record.Status.State)
		}
		c := meta.FindStatusCondition(record.Status.Conditions, v1alpha1.ReleasedCondition)
		if c == nil || c.Reason != string(v1alpha1.ReasonReleaseFailed) || c.Message != "the pool is refused" {
			t.Errorf("the record says %+v", c)
		}
		var pod corev1.Pod
		if err := f.Truth.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &pod); err != nil {
			t.Fatal(err)
		}
		explained := func(c corev1.PodCondition) bool {
			return c.Type == v1alpha1.IPsReleasedCondition && c.Reason == string(v1alpha1.ReasonReleaseFailed) && c.Message == "the pool is refused"
		}
		if !slices.ContainsFunc(pod.Status.Conditions, explained) {
			t.Errorf("the pod says %+v", pod.Status.Conditions)
		}
	}
	f.Pool.FailsRelease = nil
	f.releasesAfter(3 * time.Hour)
}

// TestARecordThatIsRefusedIsExplained: nothing is decided about the pod until its record can be written.
func TestARecordThatIsRefusedIsExplained(t *testing.T) {
	f := newWorld(t, finishedAfter(time.Minute), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	refusal := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("IPAllocation").GroupKind(), "old", nil)
	f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return refusal }})
	if err := f.after(time.Hour); !apierrors.IsInvalid(err) {
		t.Fatalf("error %v, want the refusal of the record", err)
	}
	f.explains("writing the record old")
}

// TestARecordOfWhichTheDeletionIsRefusedIsExplained: it comes before the finalizer of a pod that its kubelet ended.
func TestARecordOfWhichTheDeletionIsRefusedIsExplained(t *testing.T) {
	f := newWorld(t, onepod.FinishedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	refusal := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), "old", nil)
	f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refusal }})
	if err := f.after(time.Hour); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v, want the refusal of the deletion", err)
	}
	f.explains("forbidden")
}

// explains checks that the pod has a failed release with that in its message.
func (f *world) explains(message string) {
	f.Helper()
	var pod corev1.Pod
	if err := f.Truth.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &pod); err != nil {
		f.Fatal(err)
	}
	if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.IPsReleasedCondition && c.Reason == string(v1alpha1.ReasonReleaseFailed) && strings.Contains(c.Message, message)
	}) {
		f.Errorf("the pod says %+v", pod.Status.Conditions)
	}
}
