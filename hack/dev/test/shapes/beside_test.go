// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// beside is a world with one network, in which releases meet whereabouts' allocator.
type beside struct {
	*world
	shape *shape
}

// besideEach plays with each version that was chosen.
func besideEach(t *testing.T, play func(*testing.T, beside, version)) {
	for _, v := range chosen(t) {
		t.Run("whereabouts "+v.minor, func(t *testing.T) {
			b := beside{newWorld(t, v), shapes[0].knownTo(v)}
			b.define(t, b.shape)
			play(t, b, v)
		})
	}
}

// held is the key of the one address that a sandbox of a pod holds.
func (b beside) held(t *testing.T, pod *corev1.Pod, sandbox string) ipam.Key {
	t.Helper()
	found := slices.DeleteFunc(b.find(t, pod), func(k ipam.Key) bool { return k.SandboxID != sandbox })
	if len(found) != 1 {
		t.Fatalf("sandbox %s of %s holds %v, want one address", sandbox, podRef(pod), found)
	}
	return found[0]
}

// give is CNI ADD for a pod of this name.
func (b beside) give(t *testing.T, name, sandbox string) ipam.Key {
	t.Helper()
	pod := b.shape.pod(name)
	b.add(t, b.shape, pod, sandbox)
	return b.held(t, pod, sandbox)
}

// leak gives addresses to pods that are not seen again. The requests release them.
func (b beside) leak(t *testing.T, pods int) (requests []ipam.Request) {
	t.Helper()
	for n := range pods {
		requests = append(requests, requestOf(b.give(t, fmt.Sprintf("leak-%d", n), fmt.Sprintf("leaked-%d", n)))...)
	}
	return requests
}

func requestOf(key ipam.Key) []ipam.Request { return []ipam.Request{{Key: key, Record: "0f3c-uid"}} }

func TestAnAddressUnderATombstoneIsGivenToNoPod(t *testing.T) {
	besideEach(t, func(t *testing.T, b beside, _ version) {
		first := b.give(t, "web", "sandbox-1")
		if result := b.backend(t).Tombstone(t.Context(), requestOf(first))[0]; result.Err != nil {
			t.Fatal(result.Err)
		}
		successor := b.give(t, "web", "sandbox-2")
		if successor.IP == first.IP {
			t.Errorf("a pod of the same name got %s", first.IP)
		}
		if result := b.backend(t).Release(t.Context(), requestOf(first))[0]; result.Err != nil {
			t.Fatal(result.Err)
		}
		if next := b.give(t, "db", "sandbox-3"); next.IP != first.IP {
			t.Errorf("the next pod got %s, want %s, which was released", next.IP, first.IP)
		}
		b.held(t, b.shape.pod("web"), "sandbox-2")
	})
}

// The range of the network is wider by now, so that the next pod of the name gets its address from another pool.
func TestTheReservationOfATombstoneIsGivenToNoPod(t *testing.T) {
	besideEach(t, func(t *testing.T, b beside, _ version) {
		first := b.give(t, "web", "sandbox-1")
		if result := b.backend(t).Tombstone(t.Context(), requestOf(first))[0]; result.Err != nil {
			t.Fatal(result.Err)
		}
		b.shape = &shape{id: b.shape.id, networks: map[string]string{"wider": macvlan(`"range":"10.101.0.0/23"`)}, attach: "wider"}
		b.define(t, b.shape)
		if successor := b.give(t, "web", "sandbox-2"); successor.IP == first.IP {
			t.Errorf("a pod of the same name got %s from pool %s", first.IP, successor.Pool)
		}
		if result := b.backend(t).Release(t.Context(), requestOf(first))[0]; result.Err != nil {
			t.Fatal(result.Err)
		}
		if next := b.give(t, "db", "sandbox-3"); next.IP != first.IP {
			t.Errorf("the next pod got %s, want %s, which was released", next.IP, first.IP)
		}
	})
}

// Before 0.8 whereabouts gave no address by name: nothing is inherited, and the release is only of the sandbox that it names.
func TestAnEntryThatASuccessorInheritedIsNotReleased(t *testing.T) {
	besideEach(t, func(t *testing.T, b beside, v version) {
		inherits := !v.noInterfaces
		first := b.give(t, "web", "sandbox-1")
		successor := b.give(t, "web", "sandbox-2")
		if (successor.IP == first.IP) != inherits {
			t.Fatalf("the successor got %s, and the first pod had %s; whereabouts %s gives addresses by name: %t", successor.IP, first.IP, v.minor, inherits)
		}
		if err := b.backend(t).Release(t.Context(), requestOf(first))[0].Err; errors.Is(err, ipam.ErrChanged) != inherits || err != nil && !inherits {
			t.Errorf("error %v; it is %v where the entry was inherited", err, ipam.ErrChanged)
		}
		b.held(t, b.shape.pod("web"), "sandbox-2")
	})
}

// Leaked addresses are released while pods come and go: at the end the pool holds exactly the pods that live.
func TestReleasesAndAllocationsOfOnePoolAtTheSameTime(t *testing.T) {
	besideEach(t, playReleasesAndAllocations)
}

func playReleasesAndAllocations(t *testing.T, b beside, v version) {
	t.Helper()
	const churns, batches = 3, 3
	leaks, rounds := 60, 12
	if v.modfile != "" { // each call is a process
		leaks, rounds = 15, 4
	}
	requests := b.leak(t, leaks)
	backend := b.backend(t)
	var want []string
	var running sync.WaitGroup
	var lease sync.Mutex // stands for whereabouts' own
	run := func(command string, c call) {
		lease.Lock()
		defer lease.Unlock()
		if err := b.plugin.run(t, command, c); err != nil {
			t.Errorf("%s of %s: %v", command, c.sandbox, err)
		}
	}
	for n := range churns {
		pod := b.shape.pod(fmt.Sprintf("churn-%d", n))
		var calls []call
		for round := range rounds {
			calls = append(calls, b.calls(t, b.shape, pod, fmt.Sprintf("churn-%d-%d", n, round))...)
		}
		want = append(want, calls[rounds-1].sandbox) // the last one lives on
		running.Go(func() {
			for i, c := range calls {
				run("ADD", c)
				if i < rounds-1 {
					run("DEL", c)
				}
			}
		})
	}
	for some := range slices.Chunk(requests, leaks/batches) {
		running.Go(func() {
			for _, result := range backend.Release(t.Context(), some) {
				if result.Err != nil {
					t.Errorf("releasing %s: %v", result.Request.Key, result.Err)
				}
			}
		})
	}
	running.Wait()
	var live []string
	for _, key := range keysOf(b.backend(t).All()) {
		live = append(live, key.SandboxID)
	}
	slices.Sort(live)
	if diff := cmp.Diff(want, live); diff != "" {
		t.Errorf("sandboxes with an address (-want +got):\n%s", diff)
	}
}

// TestAMissingReservationIsMade: each version's own definition accepts what the repair writes.
func TestAMissingReservationIsMade(t *testing.T) {
	besideEach(t, func(t *testing.T, b beside, _ version) {
		key := b.give(t, "web", "sandbox-1")
		made := wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: firstNamespace, Name: key.IP.String()}}
		if err := b.admin.Delete(t.Context(), made.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		want := ipam.Reservation{Name: firstNamespace + "/" + key.IP.String(), PodRef: key.PodRef, Interface: key.Interface}
		if err := b.backend(t).(ipam.Repairable).CreateReservation(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if err := b.admin.Get(t.Context(), client.ObjectKeyFromObject(&made), &made); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: want.PodRef, IfName: want.Interface}, made.Spec); diff != "" {
			t.Errorf("the reservation that was made (-want +got):\n%s", diff)
		}
	})
}
