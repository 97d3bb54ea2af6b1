// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

func count(writes []string, prefix string) int {
	n := 0
	for _, write := range writes {
		if strings.HasPrefix(write, prefix) {
			n++
		}
	}
	return n
}

func TestEachNodeGetsOneObjectAndHeartbeatsNoWrite(t *testing.T) {
	play(t, func(w *world) {
		const nodes = 300
		w.stop()
		var all []*corev1.Node
		for i := range nodes {
			all = append(all, w.register(fmt.Sprintf("node-%d", i), fmt.Sprintf("m%d", i)))
		}
		w.took()
		w.start()
		w.pass(time.Minute)
		if writes := w.took(); count(writes, "create guardednodes") != nodes || len(writes) != nodes+1 {
			t.Errorf("%d objects and %d writes in all, want %d objects and the Lease", count(writes, "create guardednodes"), len(writes), nodes)
		}
		for _, node := range all {
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
			if err := w.admin.Status().Update(w.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Hour)
		if writes := w.took(); len(writes) > 0 {
			t.Errorf("writes while nothing changes: %v", writes)
		}
		w.is(all[7], "m7")
	})
}

func TestAnObjectIsDeletedOnceItsMachineIsGoneForTheDelay(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.delete(node)
		w.took()
		w.pass(delay - soon)
		w.is(node, "A gone")
		if writes := w.took(); count(writes, "update guardednodes") != 1 || count(writes, "update leases") < 4 || len(writes) > 6 {
			t.Errorf("writes while a machine is gone: %v, want one of its object, and the Lease each minute", writes)
		}
		w.pass(3 * lookInterval)
		w.is(node, "none")
		w.took()
		w.pass(time.Hour)
		if writes := w.took(); len(writes) > 0 {
			t.Errorf("writes after that: %v", writes)
		}
	})
}

func TestARecordKeepsTheObjectOfItsNode(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		record := w.record("pod", node)
		w.pass(soon)
		w.delete(node)
		w.pass(time.Hour)
		w.is(node, "A gone")
		w.delete(record)
		w.pass(2 * lookInterval)
		w.is(node, "none")
	})
}

func TestR8AMachineThatRegistersAgainHasASuccessor(t *testing.T) {
	play(t, func(w *world) {
		old := w.register("node", "A")
		record := w.record("pod", old)
		w.pass(soon)
		w.delete(old)
		successor := w.register("node", "A")
		w.pass(soon)
		w.is(old, "A of "+string(successor.UID))
		w.is(successor, "A")
		w.delete(record)
		w.pass(soon)
		w.is(old, "none")
		w.is(successor, "A")
	})
}

func TestR1AnotherMachineUnderANodeObjectLeavesTheFirstOne(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.takeOver(node, "B")
		w.pass(time.Hour)
		w.is(node, "B", "A gone")
		w.delete(node)
		w.pass(soon)
		w.is(node, "B gone", "A gone")
		w.pass(delay + lookInterval)
		w.is(node, "none")
	})
}

// A registers U2, and U2 is deleted before any object has it. By U1 the machine is gone, which counts only once U2 agrees.
func TestR1AMachineIsGoneOnlyByEveryObject(t *testing.T) {
	play(t, func(w *world) {
		first := w.register("node", "A")
		record := w.record("pod", first)
		w.pass(soon)
		w.delete(first)
		w.pass(time.Hour)
		second := w.register("node", "A")
		w.delete(second)
		w.delete(record)
		w.pass(soon)
		w.is(second, "A gone")
		w.is(first, "A gone")
		w.pass(delay - 2*soon)
		w.is(first, "A gone")
		w.pass(2 * lookInterval)
		w.is(first, "none")
		w.is(second, "none")
	})
}

func TestR3TheObservationBeginsWithEachManagerAndEachGap(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.record("pod", node)
		w.pass(soon)
		w.delete(node)
		w.pass(time.Hour)
		w.start()
		w.began(time.Now(), soon+time.Second)
		w.pass(time.Hour)
		w.began(time.Now().Add(-time.Hour), 2*soon)
		if renewed := w.observation().RenewTime; time.Since(renewed.Time) > lookInterval+soon {
			t.Errorf("renewed at %s, want each minute", renewed)
		}
		for _, stream := range w.server.Streams() {
			stream.Cut()
		}
		w.pass(time.Minute)
		w.began(time.Now().Add(-time.Hour-time.Minute), 2*soon) // a watch that goes on misses nothing
		for _, stream := range w.server.Streams() {
			stream.Expire()
		}
		w.pass(time.Minute)
		w.began(time.Now(), time.Minute+time.Second)
	})
}

func TestR3AnObjectIsKeptForTheDelayAfterARestart(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		record := w.record("pod", node)
		w.pass(soon)
		w.delete(node)
		w.pass(time.Hour)
		w.start()
		w.delete(record)
		w.pass(delay - 2*soon)
		w.is(node, "A gone")
		w.pass(lookInterval + 2*soon)
		w.is(node, "none")
	})
}

func TestR10AnObjectThatAnotherClientDeletesIsCreatedAgainAndNothingIsGoneMeanwhile(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.record("pod", node)
		w.pass(soon)
		w.delete(node)
		w.pass(time.Hour)
		w.delete(w.object(node))
		w.pass(soon)
		w.is(node, "A gone")
		w.began(time.Now(), soon+time.Second)
		if since := w.object(node).Spec.Machines[0].Gone.Since; time.Since(since.Time) > 2*soon {
			t.Errorf("gone since %s, want since the object was made again", since)
		}
	})
}

// TestR10AnObjectThatIsCreatedAgainNamesItsNode: no record names the Node, which is registered.
func TestR10AnObjectThatIsCreatedAgainNamesItsNode(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.pass(time.Hour)
		w.delete(w.object(node))
		w.pass(soon)
		if name := w.object(node).Spec.NodeName; name != "node" {
			t.Errorf("the object names Node %q", name)
		}
	})
}

func TestR10AMachineThatAnotherClientRemovesBeginsTheObservationAgain(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.takeOver(node, "B")
		w.pass(time.Hour)
		object := w.object(node)
		object.Spec.Machines = object.Spec.Machines[:1]
		if err := w.admin.Update(w.Context(), object); err != nil {
			t.Fatal(err)
		}
		w.pass(soon)
		w.began(time.Now(), soon+time.Second)
	})
}

func TestAKubeletThatIsAliveKeepsTheObject(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.renew("node")
		w.delete(node)
		for range 10 {
			w.pass(delay - lookInterval)
			w.renew("node")
		}
		w.is(node, "A gone")
		if seen := w.object(node).Spec.Machines[0].Gone.Liveness; !strings.HasPrefix(seen, "its kubelet has renewed the node's Lease") {
			t.Errorf("liveness %q", seen)
		}
		w.pass(delay + 3*lookInterval)
		w.is(node, "none")
	})
}

func TestNothingCountsAsGoneWhileItsSignsCannotBeRead(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.delete(node)
		w.pass(lookInterval)
		w.set(func() { w.kubeletFails = true })
		w.pass(time.Hour)
		w.is(node, "A gone")
		w.set(func() { w.kubeletFails = false })
		w.pass(lookInterval + soon)
		if since := w.object(node).Spec.Machines[0].Gone.Since; time.Since(since.Time) > 2*lookInterval {
			t.Errorf("gone since %s, want since the first look that did not fail", since)
		}
		w.pass(delay + lookInterval)
		w.is(node, "none")
	})
}

// What could not be read once is tried again before the gap is too long.
func TestOneFailedReadOfSignsBeginsNoDelayAgain(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.record("pod", node)
		w.pass(soon)
		w.delete(node)
		w.pass(lookInterval / 2)
		since := w.object(node).Spec.Machines[0].Gone.Since
		w.set(func() { w.kubeletFails = true })
		w.pass(lookInterval)
		w.set(func() { w.kubeletFails = false })
		w.pass(5 * lookInterval)
		if again := w.object(node).Spec.Machines[0].Gone.Since; !again.Equal(&since) {
			t.Errorf("gone since %s, and since %s after a read that failed", since, again)
		}
	})
}

func TestWithNodeGoneActionHoldAnObjectIsKept(t *testing.T) {
	playWith(t, &world{hold: true}, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.delete(node)
		w.pass(24 * time.Hour)
		w.is(node, "A gone")
		w.delete(w.object(node))
		w.pass(time.Hour)
		w.is(node, "none")
	})
}

func TestR9AnObjectIsWrittenAtMostOnceASecond(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.took()
		const changes = 40
		for i := range changes {
			w.takeOver(node, []string{"A", "B"}[i%2])
			w.pass(100 * time.Millisecond)
		}
		w.pass(soon)
		if writes := w.took(); len(writes) > changes/10+2 {
			t.Errorf("%d writes in four seconds and a half", len(writes))
		}
		w.is(node, "B", "A gone")
	})
}

// A write that fails after a gap does not hide the gap from the next one.
func TestAGapStandsUntilItIsWritten(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.record("pod", node)
		w.pass(soon)
		w.delete(node)
		w.pass(lookInterval)
		w.set(func() { w.kubeletFails = true })
		w.pass(time.Hour)
		w.set(func() { w.kubeletFails, w.refuses = false, "guardednodes" })
		w.pass(lookInterval)
		w.set(func() { w.refuses = "" })
		w.pass(2 * lookInterval)
		if since := w.object(node).Spec.Machines[0].Gone.Since; time.Since(since.Time) > 4*lookInterval {
			t.Errorf("gone since %s, want since the first look that was written", since)
		}
	})
}

func TestR3AManagerThatCannotReadTheSignsOfAMachineCountsNoTime(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.record("pod", node)
		w.pass(soon)
		w.delete(node)
		w.pass(lookInterval)
		w.set(func() { w.kubeletFails = true })
		w.start()
		w.pass(time.Hour)
		w.set(func() { w.kubeletFails = false })
		w.pass(lookInterval + soon)
		if since := w.object(node).Spec.Machines[0].Gone.Since; time.Since(since.Time) > 2*lookInterval {
			t.Errorf("gone since %s, want since the first look of this manager", since)
		}
	})
}

func TestAMachineIsGoneAlthoughItsSignsCannotBeRead(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		w.set(func() { w.kubeletFails = true })
		w.delete(node)
		w.pass(soon)
		w.is(node, "A gone")
		w.pass(time.Hour)
		w.is(node, "A gone")
		w.began(time.Now().Add(-time.Hour), 4*soon) // one node holds up no other
	})
}

// A forward step of the clock would end a persisted delay at once, and a suspended machine's time is not observed: neither moves Go's monotonic reading.
func TestR3TheObservationIsTimedByTheWallClock(t *testing.T) {
	w := &world{T: t}
	w.server = apiserver.New(apiserver.Options{}, kinds(t)...)
	c, err := client.New(w.config("manager"), client.Options{Scheme: scheme(t), Mapper: w.server.Mapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	r := newReconciler(c, c, clock.RealClock{}, Options{Namespace: namespace, Watches: &Watches{}, Kubelet: w.kubelet})
	if result, err := r.Reconcile(t.Context(), request{}); err != nil || result.Priority == nil || *result.Priority <= 0 {
		t.Fatalf("a round gives %+v, %v, want that the next one comes before the objects", result, err)
	}
	v := &view{Observation: nodelife.Observation{UID: "u", Spec: v1alpha1.GuardedNodeSpec{NodeName: "node",
		Machines: []v1alpha1.GuardedMachine{{MachineID: "A", Gone: &v1alpha1.MachineGone{Since: metav1.Now()}}}}}}
	r.next(t.Context(), v, time.Now())
	for what, at := range map[string]time.Time{"the observation": r.acquired, "the last round": r.complete, "the last read": r.reached, "signs of the kubelet": v.looked} {
		if at.IsZero() || at != at.Round(0) {
			t.Errorf("%s: %v has a monotonic reading", what, at)
		}
	}
}

// An agent cannot respond while the API server is away. That another node's object cannot be written is no such time.
func TestSinceWhenTheAPIServerIsReached(t *testing.T) {
	play(t, func(w *world) {
		began := time.Now()
		w.set(func() { w.refuses = "guardednodes" })
		w.register("node", "A")
		w.pass(time.Hour)
		if since := w.lifecycle.ReachedSince(); since.Sub(began) > time.Minute {
			t.Errorf("reached since %s, want since the start at %s", since, began)
		}
		w.set(func() { w.refuses, w.unreadable = "", "leases" })
		w.pass(maxGap + lookInterval)
		if since := w.lifecycle.ReachedSince(); !since.After(time.Now()) {
			t.Errorf("reached since %s, but it is not", since)
		}
		w.set(func() { w.unreadable = "" })
		w.pass(lookInterval)
		if age := time.Since(w.lifecycle.ReachedSince()); age > lookInterval || age <= 0 {
			t.Errorf("reached for %s, want since the first round that read", age)
		}
	})
}
