// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// held is a backend with one entry, which was there before the queues ran.
type held struct{ ipam.Backend }

func (held) HasSynced() bool { return true }
func (held) All() ipam.Snapshot {
	return ipam.Snapshot{Entries: []ipam.Entry{{Key: ipam.Key{SandboxID: "sandbox"}}}}
}

// cached has one pod and no record.
type cached struct{ client.Client }

func (cached) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if pods, is := into.(*corev1.PodList); is {
		pods.Items = make([]corev1.Pod, 1)
		pods.Items[0].UID = "pod"
	}
	return nil
}

// TestWhatWasThereIsReplayedOnceAndLast: each queue dropped what came before it ran, so that the replay waits for the last of them.
func TestWhatWasThereIsReplayedOnceAndLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]int{}
		to := func(name string) looks {
			return looks{pods: func(uids ...types.UID) {
				for _, uid := range uids {
					got[name+" "+string(uid)]++
				}
			}, orphans: func(ids ...string) { got[name+" "+ids[0]]++ }}
		}
		r := &router{client: cached{}, backends: []ipam.Backend{held{}}, changed: to("changed"), replayed: to("replayed")}
		running := []func(context.Context){r.queue(), r.queue(), r.queue()}
		for i, run := range running {
			run(t.Context())
			synctest.Wait()
			if last := i == len(running)-1; (len(got) > 0) != last {
				t.Errorf("after %d of %d queues: %v", i+1, len(running), got)
			}
		}
		r.lookAt("reported")
		if diff := cmp.Diff(map[string]int{"replayed pod": 1, "replayed sandbox": 1, "changed reported": 1}, got); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
	})
}
