// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// all is the state of all machines, requested like by a waiting orphan; nil if there was none for two minutes.
func (w *world) all() *nodelife.Lifecycle {
	w.Helper()
	after := time.Now()
	for range 2 * time.Minute / nodelife.ConfirmAgain {
		read, err := w.lifecycle.All(w.Context(), after)
		if err != nil {
			w.Fatal(err)
		}
		if read != nil {
			return read
		}
		w.pass(nodelife.ConfirmAgain)
	}
	return nil
}

// over are the UIDs of the machines that no Node reports and whose delay is over.
func over(l *nodelife.Lifecycle) (over, waiting []types.UID) {
	for _, machine := range l.Unreported(time.Now()) {
		if time.Now().Before(machine.Since.Add(delay)) {
			waiting = append(waiting, machine.Machine.UID)
		} else {
			over = append(over, machine.Machine.UID)
		}
	}
	return over, waiting
}

func TestAllMachinesAreReadLaterThanTheLeases(t *testing.T) {
	play(t, func(w *world) {
		w.isOver(w.gone(), true)
		w.register("next", "B")
		w.pass(soon)
		leases := time.Now()
		read := w.all()
		if read == nil || !read.Read.After(leases) || len(read.Nodes) != 1 {
			t.Errorf("read %+v, expected one Node that was read after %s", read, leases)
		}
	})
}

// A Node was deleted before any manager ran, and the record of a pod has its machine (R10).
func TestR10NoReadIsWholeBeforeEachRecordedMachineHasItsObject(t *testing.T) {
	w := &world{}
	playWith(t, w, func(w *world) {
		w.stop()
		before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "before", UID: "before"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{
			MachineID: "A", SystemUUID: "A-system", BootID: "A-boot"}}}
		w.record("pod", before)
		w.set(func() { w.refuses = "guardednodes" })
		w.start()
		if read := w.all(); read != nil {
			t.Fatalf("read %+v without the object of the machine", read)
		}
		w.set(func() { w.refuses = "" })
		w.pass(time.Minute)
		read := w.all()
		if read == nil {
			t.Fatal("nothing was read though all is written")
		}
		if _, waiting := over(read); !slices.Equal(waiting, []types.UID{"before"}) {
			t.Errorf("%v have to be gone for the delay, expected the recorded machine", waiting)
		}
	})
}

func TestR2AKubeletThatWritesAtTheLastMomentHoldsAllMachines(t *testing.T) {
	for name, alive := range map[string]bool{"it wrote": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				node := w.gone()
				if alive {
					w.renew("node")
				}
				if isOver, _ := over(w.all()); slices.Equal(isOver, []types.UID{node.UID}) == alive {
					t.Errorf("the delays of %v are over, alive: %t", isOver, alive)
				}
			})
		})
	}
}

// One live list serves all machines, so that the delay of each is over at its time (L4).
func TestI2TheDelayDoesNotGrowWithTheNumberOfMachines(t *testing.T) {
	const many = 200
	play(t, func(w *world) {
		var nodes []*corev1.Node
		for i := range many {
			node := w.register(fmt.Sprintf("node-%d", i), fmt.Sprintf("m%d", i))
			w.record(fmt.Sprintf("pod-%d", i), node)
			nodes = append(nodes, node)
		}
		w.pass(time.Minute)
		for _, node := range nodes {
			w.delete(node)
		}
		w.pass(delay + soon)
		if isOver, waiting := over(w.all()); len(isOver) != many {
			t.Errorf("%d machines are gone and %d have to wait, expected %d to be gone", len(isOver), len(waiting), many)
		}
	})
}

// The watch of Nodes has a pause, in which a Node registers and is deleted again. No GuardedNode has its machine, and no list.
func TestR3ANodeThatCameAndWentBeforeTheListIsSeen(t *testing.T) {
	play(t, func(w *world) {
		w.register("node", "A")
		w.pass(time.Minute)
		for _, stream := range w.server.Streams() {
			if stream.Name() == "manager watch nodes" {
				stream.Cut()
			}
		}
		node := w.register("moment", "B")
		w.delete(node)
		read := w.all()
		if read == nil {
			t.Fatal("nothing was read")
		}
		if _, waiting := over(read); !slices.Equal(waiting, []types.UID{node.UID}) {
			t.Errorf("%v have to be gone for the delay, expected the machine that registered for a moment", waiting)
		}
	})
}
