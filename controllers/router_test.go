// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// held is a backend with one entry, which was there before the queues ran.
type held struct{ ipam.Backend }

func (held) HasSynced() bool { return true }
func (held) All() ipam.Snapshot {
	return ipam.Snapshot{Entries: []ipam.Entry{{Key: ipam.Key{SandboxID: "sandbox"}}, {Key: ipam.Key{SandboxID: "owned"}, Owner: &ipam.PodRef{Namespace: "ns", Name: "owner"}},
		{Key: ipam.Key{SandboxID: "releasing"}, Releasing: "released"}}}
}

// cached has one pod, the record of another, and that of an orphan. It only lists all of them: a get panics.
type cached struct {
	client.Client
	t *testing.T
}

func (c cached) List(_ context.Context, into client.ObjectList, o ...client.ListOption) error {
	if options := (&client.ListOptions{}).ApplyOptions(o); options.FieldSelector != nil {
		c.t.Errorf("a start looks up %T by %s", into, options.FieldSelector)
	}
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}}
	case *v1alpha1.IPAllocationList:
		list.Items = []v1alpha1.IPAllocation{{ObjectMeta: metav1.ObjectMeta{Name: "record"}}, {ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OrphanPrefix + "orphan"}}}
	}
	return nil
}

// TestWhatWasThereIsReplayedOnceAndLast: each queue dropped what came before it ran, so that the replay waits for the last of them. It has every pod, record,
// sandbox and owner, without a look-up for each; changes until then are in it.
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
		r := &router{client: cached{t: t}, backends: []ipam.Backend{held{}}, changed: to("changed"), replayed: to("replayed"),
			late: func(ref ipam.PodRef) { got["late "+ref.String()]++ }}
		running := []func(context.Context){r.queue(), r.queue(), r.queue()}
		r.route(ipam.Event{PodRefs: []ipam.PodRef{{Namespace: "ns", Name: "owner"}}, SandboxIDs: []string{"owned"}, Records: []string{"released"}})
		for i, run := range running {
			run(t.Context())
			synctest.Wait()
			if last := i == len(running)-1; (len(got) > 0) != last {
				t.Errorf("after %d of %d queues: %v", i+1, len(running), got)
			}
		}
		want := map[string]int{"replayed pod": 1, "replayed record": 1, "replayed orphan": 1, "replayed sandbox": 1, "replayed owned": 1, "late ns/owner": 1, "replayed releasing": 1,
			"replayed released": 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
	})
}
