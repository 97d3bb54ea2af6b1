// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// world is an entry that may belong to no pod.
type world struct {
	*onepod.World
	r *Reconciler
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := onepod.New(t, objects...)
	return &world{w, New(w.Client, w.Live, w.Recorder, w.Clock, Options{Backends: []ipam.Backend{w.Pool}, Evidence: release.EvidenceKubelet, Settings: onepod.Settings,
		PoliciesSince: w.PoliciesSince, Witness: witness.New(w.Clock), Liveness: liveness.New(w.Live, w.Clock, w.PoliciesSince),
		Machines: newMachines(w.Client, w.Live, w.Clock)})}
}

// search is the search for the node of one orphan, with live reads that are noted, hidden or disturbed.
type search struct {
	*world
	// reads are the live reads in their order, each kind once in a row; hidden kinds are not found by them.
	reads    []string
	hidden   string
	machines *machinesOfTest
	// before is called before each live read.
	before func(what string)
}

// lost is an ID as container runtimes make them: no node is asked about any other.
const lost = sandboxID("0f00000000000000000000000000000000000000000000000000000000000001")

func newSearch(t *testing.T, objects ...client.Object) *search {
	t.Helper()
	record := onepod.RecordOfOld(nil)
	record.Name, record.Spec.NodeName = v1alpha1.OrphanPrefix+string(lost), ""
	record.Spec.Sandboxes[0].ID, record.Spec.Addresses[0].SandboxID = string(lost), string(lost)
	s := &search{world: newWorld(t, append(objects, record)...), before: func(string) {}}
	s.Pool.Entries[0].SandboxID = string(lost)
	s.Pool.OnLive = func() { s.note("pools") }
	live, o := s.watched(), s.r.options
	o.Evidence, o.ManagerNamespace, o.AgentNamespace, o.MaxAsked = release.EvidenceAgent, "holdfast-system", "holdfast-agent", 10
	o.Liveness = liveness.New(live, s.Clock, func(context.Context) (time.Time, error) { return time.Time{}, nil })
	s.machines = newMachines(s.Client, live, s.Clock)
	o.Machines = s.machines
	s.r = New(s.Client, live, s.Recorder, s.Clock, o)
	return s
}

func (s *search) note(what string) {
	if len(s.reads) == 0 || s.reads[len(s.reads)-1] != what {
		s.reads = append(s.reads, what)
	}
	s.before(what)
}

func (s *search) watched() client.Client {
	return interceptor.NewClient(s.Truth, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			s.note(strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", into), "*v1.")))
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			what := strings.ToLower(into.GetObjectKind().GroupVersionKind().Kind)
			if what == "" {
				what = strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", into), "*v1."))
			}
			s.note(what)
			if what == s.hidden {
				return nil
			}
			return c.List(ctx, into, opts...)
		}})
}

func (s *search) record() *v1alpha1.IPAllocation {
	s.Helper()
	var record v1alpha1.IPAllocation
	if err := s.Truth.Get(s.Context(), client.ObjectKey{Name: v1alpha1.OrphanPrefix + string(lost)}, &record); err != nil {
		s.Fatal(err)
	}
	return &record
}

// ask has every node asked, and lets the time pass after which answers count.
func (s *search) ask() {
	s.Helper()
	if _, err := s.r.Reconcile(s.Context(), lost); err != nil {
		s.Fatal(err)
	}
	if marks := s.record().Spec.Marks; len(marks) != 1 || marks[0].NodeUID != "" {
		s.Fatalf("marks %v, expected one that asks all", marks)
	}
	s.Clock.SetTime(s.Clock.Now().Add(onepod.NodeGoneDelay))
}

// acknowledges writes the Lease of a node's agent, at the version that the record has now and more.
func (s *search) acknowledges(node *corev1.Node, more int) {
	s.Helper()
	version, err := strconv.Atoi(s.record().ResourceVersion)
	if err != nil {
		s.Fatal(err)
	}
	s.Apply(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast-agent", Name: v1alpha1.AgentLeaseName(node.Name), Annotations: map[string]string{
		v1alpha1.AcknowledgedVersionAnnotation: strconv.Itoa(version + more), v1alpha1.AcknowledgedNodeUIDAnnotation: string(node.UID),
		v1alpha1.AcknowledgedBootIDAnnotation: node.Status.NodeInfo.BootID}}})
}

// look is a look past the caches, as for an orphan that they show to be ready.
func (s *search) look() (released int) {
	s.Helper()
	s.reads = nil
	s.r.reclaimer.ready(lost)
	if _, err := s.r.reclaimer.round(s.Context()); err != nil {
		s.Fatal(err)
	}
	return len(s.Pool.Released)
}

func TestI6ALookReadsLeasesThenNodesThenRecordsThenPools(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.ask()
	s.acknowledges(node, 0)
	if s.look() != 1 {
		t.Fatal("not released")
	}
	want := []string{"leaselist", "nodelist", "*v1alpha1.ipallocation", "pools", "pod"}
	if diff := cmp.Diff(want, s.reads[:min(len(want), len(s.reads))]); diff != "" {
		t.Errorf("the reads (-want +got)\n%s", diff)
	}
}

// The acknowledgement covers every claim that was written before it, so a record that is read after the Lease has it.
func TestI1AClaimThatIsWrittenWhileALookReadsIsSeen(t *testing.T) {
	for _, moment := range []string{"leaselist", "nodelist", "*v1alpha1.ipallocation"} {
		t.Run("before the read of "+moment, func(t *testing.T) {
			node := onepod.Node("node", "node-1", "m1")
			s := newSearch(t, node)
			s.ask()
			s.acknowledges(node, 0)
			claimed := false
			s.before = func(what string) {
				if what != moment || claimed {
					return
				}
				claimed = true
				record := s.record()
				record.Status.Answers = []v1alpha1.Answer{{SandboxID: string(lost), NodeUID: node.UID, BootID: "m1-boot", Epoch: record.Spec.Marks[0].Epoch,
					Verdict: v1alpha1.VerdictDoNotRelease, Reason: string(v1alpha1.ReasonSandboxReady)}}
				if err := s.Truth.Status().Update(t.Context(), record); err != nil {
					t.Error(err)
				}
			}
			if s.look() != 0 || !claimed {
				t.Errorf("released a sandbox that a node has claimed (%v)", claimed)
			}
			if got := s.record().Spec.NodeName; got != "node" {
				t.Errorf("the record has node %q, expected the claimant", got)
			}
		})
	}
}

func TestI6LeasesAndNodesAreReadPastTheCache(t *testing.T) {
	t.Run("a Lease that only the cache has", func(t *testing.T) {
		node := onepod.Node("node", "node-1", "m1")
		s := newSearch(t, node)
		s.ask()
		s.acknowledges(node, 0)
		s.hidden = "leaselist"
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("a Node that no cache has", func(t *testing.T) {
		node, unseen := onepod.Node("node", "node-1", "m1"), onepod.Node("unseen", "node-2", "m2")
		s := newSearch(t, node)
		s.ask()
		s.acknowledges(node, 0)
		s.before = func(what string) {
			if what == "leaselist" {
				s.Apply(unseen)
			}
		}
		if s.look() != 0 {
			t.Error("released")
		}
	})
}

func TestI5OnlyWhatWasAcknowledgedAfterTheQuestionCounts(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	t.Run("a version before it", func(t *testing.T) {
		s := newSearch(t, node)
		s.ask()
		s.acknowledges(node, -3)
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("by another process, whose question it was", func(t *testing.T) {
		s := newSearch(t, node)
		s.ask()
		s.acknowledges(node, 0)
		epoch := s.record().Spec.Marks[0].Epoch
		s.r.reclaimer = newReclaimer(s.r)
		if s.look() != 0 {
			t.Error("released")
		}
		if got := s.record().Spec.Marks[0].Epoch; got <= epoch {
			t.Errorf("epoch %d, expected a later one than %d", got, epoch)
		}
	})
	t.Run("of a question that another process has put since", func(t *testing.T) {
		s := newSearch(t, node)
		s.ask()
		record := s.record()
		record.Spec.Marks[0].Epoch++
		if err := s.Truth.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		s.acknowledges(node, -1)
		if s.look() != 0 {
			t.Error("released")
		}
	})
}

func TestI1APodThatShowsTheAddressHoldsIt(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	for name, pod := range map[string]*corev1.Pod{"the pod of its name": onepod.PodOf("next", "10.0.0.5"), "a pod of its name that shows nothing yet": func() *corev1.Pod {
		p := onepod.PodOf("next", "")
		p.Annotations = nil
		return p
	}(), "a pod of another name": func() *corev1.Pod {
		p := onepod.PodOf("other", "10.0.0.5")
		p.Name = "other"
		return p
	}()} {
		t.Run(name, func(t *testing.T) {
			s := newSearch(t, node)
			s.ask()
			s.acknowledges(node, 0)
			s.before = func(what string) {
				if what == "nodelist" {
					s.Apply(pod.DeepCopy())
				}
			}
			if s.look() != 0 {
				t.Error("released")
			}
		})
	}
}

// TestI1NothingIsReleasedWhileTheNodesAreNotConfirmed: the look is made again, with the Leases of the first one.
func TestI1NothingIsReleasedWhileTheNodesAreNotConfirmed(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.ask()
	s.acknowledges(node, 0)
	s.machines.unconfirmed = true
	if s.look() != 0 {
		t.Fatal("released")
	}
	s.machines.unconfirmed, s.reads = false, nil
	again, err := s.r.reclaimer.round(t.Context())
	if err != nil || len(s.Pool.Released) != 1 || slices.Contains(s.reads, "leaselist") {
		t.Errorf("%d addresses are released after reads %v, and the next look is in %s (%v)", len(s.Pool.Released), s.reads, again, err)
	}
}

// TestR3AQuestionCountsFromWhenNodesAreObserved: a Node may have come and gone before.
func TestR3AQuestionCountsFromWhenNodesAreObserved(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.ask()
	s.acknowledges(node, 0)
	s.machines.acquired = s.Clock.Now().Add(-time.Second)
	if s.look() != 0 {
		t.Fatal("released")
	}
	s.Clock.SetTime(s.Clock.Now().Add(onepod.NodeGoneDelay))
	if s.look() != 1 {
		t.Error("still held")
	}
}

// A machine of which there is only the Lease of an agent has to be gone for the delay.
func TestAMachineThatOnlyALeaseNamesHasToBeGone(t *testing.T) {
	node, before := onepod.Node("node", "node-1", "m1"), onepod.Node("before", "node-0", "m0")
	s := newSearch(t, node)
	s.ask()
	s.acknowledges(node, 0)
	s.acknowledges(before, 0)
	if s.look() != 0 {
		t.Fatal("released")
	}
	s.Clock.SetTime(s.Clock.Now().Add(onepod.NodeGoneDelay))
	if s.look() != 1 {
		t.Error("still held")
	}
}

func TestAMachineWithoutANodeIsGoneAfterTheDelay(t *testing.T) {
	node, gone := onepod.Node("node", "node-1", "m1"), onepod.Node("gone", "node-2", "m2")
	s := newSearch(t, node, gone)
	s.ask()
	s.acknowledges(node, 0)
	if s.look() != 0 {
		t.Fatal("released before every node was silent")
	}
	if got := gauge(t, "holdfast_orphan_nodes_missing"); got != 1 {
		t.Errorf("%v nodes are said to be missing, expected 1", got)
	}
	if err := s.Truth.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for passed := time.Duration(0); passed < onepod.NodeGoneDelay; passed += nodelife.LookInterval {
		if s.look() != 0 {
			t.Fatalf("released %s after the Node object went", passed)
		}
		s.Clock.SetTime(s.Clock.Now().Add(nodelife.LookInterval))
	}
	s.Clock.SetTime(s.Clock.Now().Add(time.Second)) // what is persisted is rounded up
	if s.look() != 1 {
		t.Error("still held")
	}
}

func TestASignOfLifeOfAMachineWithoutANodeStartsTheDelayAgain(t *testing.T) {
	node, gone := onepod.Node("node", "node-1", "m1"), onepod.Node("gone", "node-2", "m2")
	s := newSearch(t, node, gone)
	s.ask()
	s.acknowledges(node, 0)
	s.look()
	if err := s.Truth.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	s.Apply(onepod.Lease("gone", onepod.Now))
	for renewed := range 10 {
		if s.look() != 0 {
			t.Fatal("released")
		}
		s.Clock.SetTime(s.Clock.Now().Add(nodelife.LookInterval))
		s.Apply(onepod.Lease("gone", onepod.Now.Add(time.Duration(renewed+1)*time.Second)))
	}
}

// gauge is the value of a gauge without labels.
func gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
