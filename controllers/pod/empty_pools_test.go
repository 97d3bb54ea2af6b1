// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// endedAfterDEL is a pod with a reported termination. The cache of pools shows no entry of it.
func endedAfterDEL(t *testing.T) *world {
	t.Helper()
	pod := onepod.FinishedPod()
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Addresses[0].PoolResourceVersion = "90"
	f := newWorld(t, pod, record, onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	return f
}

// TestI1ALateWatchDoesNotUnprotectAPodThatGotAnotherSandbox: the cache of pools shows the DEL of the first sandbox, and not yet the ADD of the next one,
// whose DEL was lost.
func TestI1ALateWatchDoesNotUnprotectAPodThatGotAnotherSandbox(t *testing.T) {
	f := endedAfterDEL(t)
	f.Pool.Version = "101"
	if _, err := f.r.Reconcile(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(nil), f.Writes); diff != "" {
		t.Fatalf("written while the cache of pools is behind (-want +got):\n%s", diff)
	}
	next := onepod.HeldByOld()
	next[0].SandboxID, next[0].PoolResourceVersion = "next-sandbox", "101"
	f.Pool.OnLive = func() { f.Pool.Entries = next }
	if err := f.after(time.Second); err != nil {
		t.Fatal(err)
	}
	if pod := onepod.FinishedPod(); f.Truth.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) != nil {
		t.Error("the pod went, and its next sandbox has the address")
	}
}

// TestI2APodIsUnprotectedOnceTheCacheOfPoolsHasCaughtUp, without a wait if it already has; each version is read once.
func TestI2APodIsUnprotectedOnceTheCacheOfPoolsHasCaughtUp(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
	}{
		"the cache is as new":                     {"100", "100"},
		"the cache catches up":                    {"99", "99"},
		"the cache is late, and a live read ends": {"101", "101"},
		"others wrote the pool meanwhile":         {"101", "100"},
	} {
		t.Run(name, func(t *testing.T) {
			f := endedAfterDEL(t)
			f.Pool.Version = tc.before
			if _, err := f.r.Reconcile(t.Context(), "old"); err != nil {
				t.Fatal(err)
			}
			f.Pool.Version = tc.after
			if err := f.after(time.Second); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{deletesRecord, takesFinalizerOff}, f.Writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPoolsFromBeforeAnotherSandboxDoNotCount: a wait for the cache of pools ends with it.
func TestPoolsFromBeforeAnotherSandboxDoNotCount(t *testing.T) {
	f := endedAfterDEL(t)
	f.Pool.Version = "101"
	if _, err := f.r.Reconcile(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	f.Pool.Entries = []ipam.Entry{onepod.HeldByOld()[0]}
	f.holdsUntil(time.Second)
	if _, waited := f.r.behind.get("old"); waited {
		t.Error("the versions from before are remembered")
	}
}
