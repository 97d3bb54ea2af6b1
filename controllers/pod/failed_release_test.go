// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
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

// TestI1ARecordThatIsRefusedIsExplained: nothing is decided about the pod until its record can be written, with a new sandbox or without one.
func TestI1ARecordThatIsRefusedIsExplained(t *testing.T) {
	for name, f := range map[string]*world{
		"an ending": newWorld(t, finishedAfter(time.Minute), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1")),
		"a sandbox": followedOnce(t),
	} {
		t.Run(name, func(t *testing.T) {
			refusal := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("IPAllocation").GroupKind(), "old", nil)
			f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return refusal }})
			if err := f.after(time.Hour); !apierrors.IsInvalid(err) {
				t.Fatalf("error %v, want the refusal of the record", err)
			}
			var pod corev1.Pod
			if err := f.Truth.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &pod); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == v1alpha1.IPsReleasedCondition && c.Reason == string(v1alpha1.ReasonReleaseFailed) && strings.Contains(c.Message, "writing the record old")
			}) {
				t.Errorf("the pod says %+v", pod.Status.Conditions)
			}
			if len(f.Pool.Released)+len(f.Pool.Tombstoned) > 0 {
				t.Errorf("released %v, disowned %v", f.Pool.Released, f.Pool.Tombstoned)
			}
		})
	}
}

// full is a client in whose API server a record has room for one sandbox.
func (f *world) full() client.Client {
	refuse := func(o client.Object) error {
		if record, is := o.(*v1alpha1.IPAllocation); is && len(record.Spec.Sandboxes) > 1 {
			return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("IPAllocation").GroupKind(), record.Name, nil)
		}
		return nil
	}
	return interceptor.NewClient(f.Truth, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := refuse(o); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		}})
}

// TestAFullRecordGetsShorter: what is recorded is queried and dropped, and makes room for the sandbox that the API server refused before.
func TestAFullRecordGetsShorter(t *testing.T) {
	f := followedOnce(t)
	f.r.client = f.full()
	f.holdsUntil(0)
	f.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.holdsUntil(time.Minute)
	if diff := cmp.Diff([]string{"next-sandbox"}, index.SandboxIDs(f.Record())); diff != "" {
		t.Fatalf("the record's sandboxes (-want +got):\n%s", diff)
	}
	f.respond("next-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.releasesAfter(2 * time.Minute)
}

// TestI2ASandboxThatARecordHasNoRoomForIsHeld: nothing about it is decided as long as its addresses and its machine are not recorded.
func TestI2ASandboxThatARecordHasNoRoomForIsHeld(t *testing.T) {
	f := followedOnce(t)
	f.r.client = f.full()
	var pod corev1.Pod
	if err := f.Truth.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &pod); err != nil {
		t.Fatal(err)
	}
	pod.Annotations[nadv1.NetworkStatusAnnot] = `[{"name":"default/net","interface":"net1","ips":["10.0.0.5","10.0.0.6"]}]`
	if err := f.Truth.Update(f.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	f.Pool.Entries = append(onepod.HeldByOld(), f.Pool.Entries...)
	f.Pool.Entries[1].IP = netip.MustParseAddr("10.0.0.6")
	f.holdsUntil(0)
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "old")
	f.holdsUntil(time.Second, time.Hour, 2*time.Hour)
	if len(f.Pool.Tombstoned) > 0 {
		t.Errorf("disowned %v", f.Pool.Tombstoned)
	}
	if diff := cmp.Diff(map[string][]string{"old": {"10.0.0.5 default/web-1"}}, f.Addresses()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
