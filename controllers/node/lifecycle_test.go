// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// left is the rest of the delay of a Node's machine, requested for a while like by a waiting pod.
func (w *world) left(node *corev1.Node) time.Duration {
	w.Helper()
	left := time.Duration(0)
	for range 2 * time.Minute / (5 * time.Second) {
		gone, err := w.lifecycle.Gone(w.Context(), node.Name, []v1alpha1.NodeIdentity{facts.Identity(node)})
		if err != nil {
			w.Fatal(err)
		}
		if left = time.Until(gone.Since.Add(delay)); left <= 0 || left > 2*time.Minute {
			return left
		}
		w.pass(5 * time.Second)
	}
	return left
}

// gone is a Node that was deleted more than the delay ago. A record keeps its object.
func (w *world) gone() *corev1.Node {
	w.Helper()
	node := w.register("node", "A")
	w.record("pod", node)
	w.pass(soon)
	w.delete(node)
	w.pass(delay + soon)
	return node
}

func (w *world) isOver(node *corev1.Node, want bool) {
	w.Helper()
	if left := w.left(node); (left <= 0) != want {
		w.Errorf("%s is left of the delay, over wanted: %t", left, want)
	}
}

func TestTheDelayIsOverOnceTheWatchHasReachedALiveList(t *testing.T) {
	play(t, func(w *world) { w.isOver(w.gone(), true) })
}

// A bookmark comes once a minute.
func TestADelayIsOverWithinSecondsThoughNoNodeChanges(t *testing.T) {
	play(t, func(w *world) {
		node := w.gone()
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}})
		began := time.Now()
		w.isOver(node, true)
		if took := time.Since(began); took > 2*nodelife.ConfirmAgain {
			t.Errorf("the delay was over after %s", took)
		}
	})
}

// Lists each 15 s and bookmarks each 60 s have to meet.
func TestADelayIsOverWithoutAnEarlyBookmark(t *testing.T) {
	playWith(t, &world{isLate: true}, func(w *world) { w.isOver(w.gone(), true) })
}

func TestR3NoDelayIsOverBeforeTheWatchHasReachedTheLiveList(t *testing.T) {
	playWith(t, &world{isQuiet: true}, func(w *world) {
		node := w.gone()
		w.isOver(node, false)
		for _, stream := range w.server.Streams() {
			if stream.Name() == "manager watch guardednodes" {
				stream.Bookmark()
			}
		}
		w.isOver(node, false)
		w.set(func() { w.isQuiet = false })
		w.isOver(node, true)
	})
}

// The API server does not limit what a kubelet reports. As long as a GuardedNode cannot be written, no delay of any machine is over.
func TestAnIDThatIsTooLongHoldsUpNoOtherMachine(t *testing.T) {
	play(t, func(w *world) {
		w.register("long", strings.Repeat("x", 254))
		w.isOver(w.gone(), true)
	})
}

// The cache lacks the Node, and the watch has shown no event.
func TestR2AMachineThatReturnsAtTheLastMomentIsSeen(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	machine := v1alpha1.NodeIdentity{UID: "u1", MachineID: "A"}
	object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "u1", UID: "of u1"}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "node",
		Machines: []v1alpha1.GuardedMachine{{MachineID: "A", Gone: &v1alpha1.MachineGone{Since: metav1.NewTime(at.Add(-time.Hour))}}}}}
	truth, clk := indexed(t).WithObjects(object, lease(at)).Build(), clocktesting.NewFakePassiveClock(at)
	r := observing(indexed(t).WithObjects(object).Build(), truth, clk, nodelife.Kubelet{})
	isOver := func(want bool) {
		t.Helper()
		gone, err := r.lifecycle.Gone(t.Context(), "node", []v1alpha1.NodeIdentity{machine})
		if err != nil {
			t.Fatal(err)
		}
		if over := !clk.Now().Before(gone.Since.Add(delay)); over != want {
			t.Errorf("over: %t (since %s), want %t", over, gone.Since, want)
		}
	}
	isOver(true)
	if err := truth.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "A"}}}); err != nil {
		t.Fatal(err)
	}
	clk.SetTime(at.Add(nodelife.Reuse - time.Second))
	isOver(true)
	clk.SetTime(at.Add(nodelife.Reuse))
	isOver(false)
}

func TestASecondWatchTakesTheNotesFurtherOnlyIfNoNodeHasChanged(t *testing.T) {
	at := func(version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "u1", ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		events []watch.Event
		fails  error
		want   string
	}{
		"a bookmark":              {events: []watch.Event{{Type: watch.Bookmark, Object: at("9")}}, want: "9"},
		"one before the list":     {events: []watch.Event{{Type: watch.Bookmark, Object: at("8")}, {Type: watch.Bookmark, Object: at("10")}}, want: "10"},
		"a Node before it":        {events: []watch.Event{{Type: watch.Added, Object: at("8")}, {Type: watch.Bookmark, Object: at("9")}}, want: "7"},
		"an error before it":      {events: []watch.Event{{Type: watch.Error, Object: &metav1.Status{}}, {Type: watch.Bookmark, Object: at("9")}}, want: "7"},
		"nothing":                 {want: "7"},
		"a watch that is refused": {fails: errors.New("refused"), want: "7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Watches{notes: notes{version: "7"}}
			w.nodes.Store(&counted{ListerWatcherWithContext: &toolscache.ListWatch{WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if o.ResourceVersion != "7" || *o.TimeoutSeconds != 3 {
					t.Errorf("watched from %s for %d seconds", o.ResourceVersion, *o.TimeoutSeconds)
				}
				stream := watch.NewFakeWithChanSize(len(tc.events), false)
				for _, e := range tc.events {
					stream.Action(e.Type, e.Object)
				}
				if len(tc.events) == 0 {
					stream.Stop()
				}
				return stream, tc.fails
			}}})
			if err := w.catchUp(t.Context(), "9"); !errors.Is(err, tc.fails) {
				t.Error(err)
			}
			if got := w.notes.reached(); got != tc.want || len(w.notes.all()) > 0 {
				t.Errorf("reached %s with notes %v, want %s without any", got, w.notes.all(), tc.want)
			}
		})
	}
}

func TestR2TimeInWhichSignsCouldNotBeReadDoesNotCount(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) time.Time { return at.Add(-d) }
	for name, tc := range map[string]struct {
		acquired time.Time
		look     look
		want     time.Time
	}{
		"read without a gap":                {before(2 * time.Hour), look{last: before(maxGap)}, before(time.Hour)},
		"not for long":                      {before(2 * time.Hour), look{last: before(maxGap + time.Second)}, at},
		"never":                             {before(2 * time.Hour), look{}, at},
		"not yet by a new leader":           {before(maxGap), look{}, before(time.Hour)},
		"read again after a gap":            {before(2 * time.Hour), look{since: before(time.Minute), last: at}, before(time.Minute)},
		"a gap before the machine was gone": {before(3 * time.Hour), look{since: before(2 * time.Hour), last: at}, before(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReconciler(nil, nil, clocktesting.NewFakePassiveClock(at), Options{})
			r.acquired, r.looks["u1"] = tc.acquired, tc.look
			object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "u1"}, Spec: v1alpha1.GuardedNodeSpec{Machines: []v1alpha1.GuardedMachine{{},
				{Gone: &v1alpha1.MachineGone{Since: metav1.NewTime(before(time.Hour))}}}}}
			r.countWatched(object)
			if got := object.Spec.Machines[1].Gone.Since.Time; !got.Equal(tc.want) {
				t.Errorf("gone since %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAQueryThatCannotBeWrittenKeepsNoDelayFromItsEnd(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		before, record := node.DeepCopy(), w.record("pod", node)
		w.pass(soon)
		w.takeOver(node, "B")
		w.pass(soon)
		w.set(func() { w.refuses = "guardednodes" })
		w.query(node.UID, record.Name, "s")
		w.pass(delay + soon)
		w.isOver(before, true)
	})
}

func TestR1AMachineThatWasBackForAMomentHasToWaitAgain(t *testing.T) {
	play(t, func(w *world) {
		node := w.gone()
		w.isOver(node, true)
		w.set(func() { w.refuses = "guardednodes" })
		w.delete(w.register("other", "A"))
		w.pass(soon)
		w.isOver(node, false) // noted, and in no object yet
		w.set(func() { w.refuses = "" })
		w.pass(2 * lookInterval)
		w.isOver(node, false)
		w.pass(delay)
		w.isOver(node, true)
	})
}

func TestR3ANewManagerBeginsEveryDelayAgain(t *testing.T) {
	play(t, func(w *world) {
		node := w.gone()
		w.start()
		w.isOver(node, false)
		w.pass(delay)
		w.isOver(node, true)
	})
}

func TestR3AReplacedManagerEndsNoDelay(t *testing.T) {
	play(t, func(w *world) {
		node := w.gone()
		deposed := w.lifecycle
		ended := w.stop
		w.stop = func() {}
		w.start()
		w.pass(2 * delay)
		w.isOver(node, true)
		w.lifecycle = deposed
		w.isOver(node, false)
		ended()
	})
}

// Two leaders overlapped, and the Lease has the observation of the one that ended.
func TestI2TheRemainingLeaderObservesAgain(t *testing.T) {
	play(t, func(w *world) {
		node := w.gone()
		left, ended := w.lifecycle, w.stop
		w.stop = func() {}
		w.start()
		w.stop()
		w.stop, w.lifecycle = ended, left
		w.isOver(node, false)
		w.pass(maxGap + 2*lookInterval + delay)
		w.isOver(node, true)
	})
}

// nameless is the rest of the delay of the name of a Node that was never seen, requested for a while like by a waiting pod.
func (w *world) nameless(during time.Duration) time.Duration {
	w.Helper()
	for end := time.Now().Add(during); ; w.pass(15 * time.Second) {
		gone, err := w.lifecycle.Gone(w.Context(), "never", nil)
		if err != nil {
			w.Fatal(err)
		}
		if left := time.Until(gone.Since.Add(delay)); left <= 0 || !time.Now().Before(end) {
			return left
		}
	}
}

func TestR12ThePodsOfANodeThatWasNeverSeenWaitForItsName(t *testing.T) {
	// enough is the delay, and the time until it is confirmed.
	const enough = delay + 90*time.Second
	cases := map[string]struct {
		between         func(*world)
		isOver, isThere bool
	}{
		"nothing happens":                       {between: func(*world) {}, isOver: true},
		"a Node of another name comes":          {between: func(w *world) { w.delete(w.register("other", "A")) }, isOver: true},
		"a Node of the name comes and goes":     {between: func(w *world) { w.delete(w.register("never", "A")) }},
		"a Node of the name is there":           {between: func(w *world) { w.register("never", "A") }, isThere: true},
		"its kubelet writes":                    {between: func(w *world) { w.renew("never") }},
		"it cannot be looked for, for too long": {between: func(w *world) { w.pass(maxGap + time.Second) }},
		"another manager takes over":            {between: func(w *world) { w.start() }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				if left := w.nameless(3 * time.Minute); left <= time.Minute || left > delay-2*time.Minute {
					t.Errorf("%s is left after three minutes of %s", left, delay)
				}
				c.between(w)
				if left := w.nameless(enough - 3*time.Minute); (left <= 0) != c.isOver {
					t.Errorf("%s is left of the delay, over wanted: %t", left, c.isOver)
				}
				if left := w.nameless(enough); (left <= 0) == c.isThere {
					t.Errorf("%s is left of the second delay, over wanted: %t", left, !c.isThere)
				}
			})
		})
	}
}

// The kubelet of the name writes when the delay is over by all earlier reads.
func TestR12AKubeletThatWritesAtTheLastMomentIsSeen(t *testing.T) {
	play(t, func(w *world) {
		w.nameless(delay - 10*time.Second)
		w.renew("never")
		if left := w.nameless(2 * time.Minute); left <= 0 {
			t.Error("the delay is over, and the kubelet is alive")
		}
	})
}

func TestNotes(t *testing.T) {
	node := func(uid, machine, version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: "node", ResourceVersion: version}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine}}}
	}
	page := func(version, next string, nodes ...*corev1.Node) *corev1.NodeList {
		list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
		for _, n := range nodes {
			list.Items = append(list.Items, *n)
		}
		return list
	}
	end := node("", "", "9")
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	cases := map[string]struct {
		note    func(*notes)
		reached string
		missing string
		want    []string
	}{
		"a list":            {func(n *notes) { n.list(page("5", "", node("u1", "a", "3"))) }, "5", "6", []string{"a"}},
		"a page is no list": {func(n *notes) { n.list(page("5", "more", node("u1", "a", "3"))) }, "", "1", []string{"a"}},
		"a heartbeat": {func(n *notes) {
			n.list(page("5", "", node("u1", "a", "3")))
			n.wrote("u1", 1)
			n.event(watch.Event{Type: watch.Modified, Object: node("u1", "a", "7")}, false)
		}, "7", "8", nil},
		"another machine": {func(n *notes) {
			n.list(page("5", "", node("u1", "a", "3")))
			n.event(watch.Event{Type: watch.Modified, Object: node("u1", "b", "7")}, false)
		}, "7", "8", []string{"a", "b"}},
		"a Node for a moment, while another replica leads": {func(n *notes) {
			n.event(watch.Event{Type: watch.Added, Object: node("u1", "a", "3")}, false)
			n.event(watch.Event{Type: watch.Deleted, Object: node("u1", "a", "7")}, false)
		}, "7", "8", nil},
		"a Node that a later list lacks, while another replica leads": {func(n *notes) {
			n.list(page("5", "", node("u1", "a", "3")))
			n.begin()
			n.list(page("7", ""))
		}, "7", "8", nil},
		"a Node that a later list lacks": {func(n *notes) {
			n.lead()
			n.list(page("5", "", node("u1", "a", "3")))
			n.begin()
			n.list(page("7", ""))
		}, "7", "8", []string{"a"}},
		"a Node for a moment": {func(n *notes) {
			n.lead()
			n.event(watch.Event{Type: watch.Added, Object: node("u1", "a", "3")}, false)
			n.wrote("u1", 1)
			n.event(watch.Event{Type: watch.Deleted, Object: node("u1", "a", "7")}, false)
		}, "7", "8", []string{"a"}},
		"a bookmark of another watch": {func(n *notes) {
			n.list(page("7", "", node("u1", "a", "3")))
			n.unchanged("7", node("", "", "9"))
		}, "9", "10", []string{"a"}},
		"one of a watch from an earlier version": {func(n *notes) {
			n.list(page("7", "", node("u1", "a", "3")))
			n.unchanged("6", node("", "", "9"))
		}, "7", "8", []string{"a"}},
		"a bookmark":           {func(n *notes) { n.event(watch.Event{Type: watch.Bookmark, Object: node("", "", "7")}, false) }, "7", "8", nil},
		"a list by a watch":    {func(n *notes) { n.event(watch.Event{Type: watch.Added, Object: node("u1", "a", "7")}, true) }, "", "1", []string{"a"}},
		"the end of that list": {func(n *notes) { n.event(watch.Event{Type: watch.Bookmark, Object: end}, true) }, "9", "10", nil},
		"an error":             {func(n *notes) { n.event(watch.Event{Type: watch.Error, Object: &metav1.Status{}}, false) }, "", "1", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := &notes{}
			c.note(n)
			var got []string
			for _, m := range n.of("u1").machines {
				got = append(got, m.MachineID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("unwritten machines (-want +got)\n%s", diff)
			}
			if (c.reached != "" && !n.haveReached(c.reached)) || n.haveReached(c.missing) {
				t.Errorf("complete up to %q, want %q and not %q", n.version, c.reached, c.missing)
			}
		})
	}
}
