// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// fakeSlices is a backend with one SlicePool. entries is by node; calls are in order.
type fakeSlices struct {
	ipam.Sliced
	nodes    []string
	entries  map[string]int
	useErr   map[string]error
	listErr  error
	clearErr error
	calls    []string
}

func (f *fakeSlices) SlicePoolReference(pool *ipam.SlicePool) *corev1.ObjectReference {
	return &corev1.ObjectReference{Namespace: pool.Namespace, Name: pool.Name, UID: pool.UID}
}

func (f *fakeSlices) SlicePools(context.Context) ([]*ipam.SlicePool, error) {
	pool := &ipam.SlicePool{Namespace: "kube-system", Name: "net", UID: "u", Range: "10.0.0.0/24", Size: "/28"}
	for i, node := range f.nodes {
		pool.Slices = append(pool.Slices, ipam.Slice{Node: node, Range: fmt.Sprintf("10.0.0.%d/28", i*16)})
	}
	return []*ipam.SlicePool{pool}, f.listErr
}

func (f *fakeSlices) SliceUse(_ context.Context, _ *ipam.SlicePool, slice ipam.Slice) (ipam.SliceUse, error) {
	f.calls = append(f.calls, "use "+slice.Node)
	return ipam.SliceUse{Pool: "pool", Entries: f.entries[slice.Node]}, f.useErr[slice.Node]
}

func (f *fakeSlices) ClearSlice(_ context.Context, pool *ipam.SlicePool, index int) error {
	f.calls = append(f.calls, "clear "+pool.Slices[index].Node)
	if f.clearErr == nil {
		f.nodes[index] = ""
	}
	return f.clearErr
}

// world has Nodes in the cache and, live, others.
type world struct {
	slices       *fakeSlices
	cached, live []string
	liveErr      error
	clock        *clocktesting.FakeClock
	reconciler   *Reconciler
	events       <-chan string
}

// born is when all Nodes were made; the worlds' clock starts long after.
var born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) build() *Reconciler {
	if w.reconciler != nil {
		return w.reconciler
	}
	objects := func(names []string) *fake.ClientBuilder {
		builder := fake.NewClientBuilder()
		for _, name := range names {
			builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(born)}})
		}
		return builder
	}
	live := objects(w.live).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.slices.calls = append(w.slices.calls, "node "+key.Name)
			if w.liveErr != nil {
				return w.liveErr
			}
			return next.Get(ctx, key, o, opts...)
		}}).Build()
	if w.clock == nil {
		w.clock = clocktesting.NewFakeClock(born.Add(time.Hour))
	}
	recorder := events.NewFakeRecorder(100)
	w.events = recorder.Events
	w.reconciler = &Reconciler{client: objects(w.cached).Build(), live: live, recorder: recorder, clock: w.clock, slices: w.slices, reported: map[types.UID]string{}}
	return w.reconciler
}

func (w *world) reported() string {
	var all []string
	for {
		select {
		case e := <-w.events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func TestSlicesAreClearedOnlyOfNodesThatAreGoneAndHoldNothing(t *testing.T) {
	failed := errors.New("no response")
	for name, tc := range map[string]struct {
		world   world
		calls   []string
		waiting bool
		after   time.Duration
		err     error
	}{
		"the node is gone and its pool is empty": {
			world: world{slices: &fakeSlices{nodes: []string{"", "a"}}},
			calls: []string{"use a", "node a", "clear a"},
		},
		"the node is gone and entries remain": {
			world: world{slices: &fakeSlices{nodes: []string{"a"}, entries: map[string]int{"a": 1}}},
			calls: []string{"use a", "node a"}, waiting: true, after: checkInterval,
		},
		"the node is there": {
			world: world{slices: &fakeSlices{nodes: []string{"a"}}, cached: []string{"a"}, live: []string{"a"}},
		},
		"the node is there, and the cache does not know it yet": {
			world: world{slices: &fakeSlices{nodes: []string{"a"}}, live: []string{"a"}},
			calls: []string{"use a", "node a"},
		},
		"the node is gone, and the cache does not know it yet": {
			world: world{slices: &fakeSlices{nodes: []string{"a"}}, cached: []string{"a"}},
		},
		"the node cannot be read": {
			world: world{slices: &fakeSlices{nodes: []string{"a"}}, liveErr: failed},
			calls: []string{"use a", "node a"}, waiting: true, err: failed,
		},
		"the pool cannot be read, which hides no other": {
			world: world{slices: &fakeSlices{nodes: []string{"a", "b"}, useErr: map[string]error{"a": failed}}},
			calls: []string{"use a", "use b", "node b", "clear b"}, waiting: true, err: failed,
		},
		"the object has changed: it is read again before anything else is written": {
			world: world{slices: &fakeSlices{nodes: []string{"a", "b"}, clearErr: ipam.ErrSliceChanged}},
			calls: []string{"use a", "node a", "clear a"}, waiting: true, after: poolDelay,
		},
		"the write fails": {
			world: world{slices: &fakeSlices{nodes: []string{"a"}, clearErr: failed}},
			calls: []string{"use a", "node a", "clear a"}, waiting: true, err: failed,
		},
		"the list fails": {world: world{slices: &fakeSlices{listErr: failed}}, err: failed, waiting: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := tc.world.build()
			result, err := r.Reconcile(t.Context(), request{})
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.calls, tc.world.slices.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if r.waiting.Load() != tc.waiting || result != (reconcile.Result{RequeueAfter: tc.after}) {
				t.Errorf("waiting %t, result %v", r.waiting.Load(), result)
			}
		})
	}
}

func TestNodesWithoutASliceAreReportedOnce(t *testing.T) {
	w := &world{slices: &fakeSlices{nodes: []string{"a"}}, cached: []string{"a", "e", "d", "c", "b"}}
	r := w.build()
	steps := []struct {
		name, want string
		change     func()
		none       bool
		after      time.Duration
	}{
		{name: "no slice is free", want: "b, c, d and 1 more: no slice of 10.0.0.0/24", after: checkInterval},
		{name: "nothing has changed", none: true, after: checkInterval},
		{name: "one is free", want: "slices are free", change: func() { w.slices.nodes = []string{"a", ""} }, after: checkInterval},
		{name: "some have one now", want: "b, c: no slice", change: func() { w.slices.nodes = []string{"a", "d", "e"} }, after: checkInterval},
		{name: "all have one", none: true, change: func() { w.slices.nodes = []string{"a", "b", "c", "d", "e"} }},
		{name: "one has lost it again", want: "b: no slice", change: func() { w.slices.nodes = []string{"a", "c", "d", "e"} }, after: checkInterval},
	}
	for _, step := range steps {
		if step.change != nil {
			step.change()
		}
		result, err := r.Reconcile(t.Context(), request{})
		if err != nil || result.RequeueAfter != step.after {
			t.Errorf("%s: result %v, error %v", step.name, result, err)
		}
		if reported := w.reported(); (reported == "") != step.none || !strings.Contains(reported, step.want) {
			t.Errorf("%s: reported %q, want %q", step.name, reported, step.want)
		}
	}
}

func TestANewNodeHasTimeToGetASlice(t *testing.T) {
	w := &world{slices: &fakeSlices{nodes: []string{"b"}}, cached: []string{"a", "b"}, clock: clocktesting.NewFakeClock(born.Add(time.Second))}
	r := w.build()
	result, err := r.Reconcile(t.Context(), request{})
	if err != nil || result.RequeueAfter != nodeDelay-time.Second || w.reported() != "" {
		t.Errorf("result %v, error %v", result, err)
	}
	w.clock.Step(result.RequeueAfter)
	if _, err := r.Reconcile(t.Context(), request{}); err != nil || !strings.Contains(w.reported(), "a: no slice") {
		t.Errorf("it is not reported of later; error %v", err)
	}
}

// recordingQueue keeps what is added with a delay.
type recordingQueue struct {
	requests
	after []time.Duration
}

func (q *recordingQueue) AddAfter(_ request, after time.Duration) {
	q.after = append(q.after, after)
}

func TestAPoolWakesNoNodeWhileNoSliceWaits(t *testing.T) {
	w := &world{slices: &fakeSlices{nodes: []string{"a"}, entries: map[string]int{"a": 1}}}
	r := w.build()
	r.poolChanged(ipam.Event{}) // no replica leads yet
	recording := &recordingQueue{}
	if err := r.feed.Source(func(context.Context) {}).Start(t.Context(), recording); err != nil {
		t.Fatal(err)
	}
	r.poolChanged(ipam.Event{})
	if recording.after != nil {
		t.Error("a pool woke it while no slice was known to wait")
	}
	if _, err := r.Reconcile(t.Context(), request{}); err != nil {
		t.Fatal(err)
	}
	r.poolChanged(ipam.Event{})
	if diff := cmp.Diff([]time.Duration{poolDelay}, recording.after); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}
