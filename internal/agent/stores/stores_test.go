// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

const (
	ownPod      = types.UID("own-pod")
	ownNode     = types.UID("own-node")
	creationMax = 10 * time.Minute
	patience    = time.Minute
)

var store = nodestore.Store{Backend: nodestore.HostLocal, Source: "/networks", Name: "cbr0"}

func entryOf(ip, id string) nodestore.Entry {
	return nodestore.Entry{Store: store, IP: netip.MustParseAddr(ip), SandboxID: id, Interface: "eth0", Network: "cbr0"}
}

// node is a node whose stores, runtime and agent identity the test sets.
type node struct {
	mu sync.Mutex

	entries  []nodestore.Entry
	defects  []nodestore.Defect
	print    string
	listed   []handshake.Sandbox
	listing  error
	pod, uid types.UID
	refuse   error
	reclaim  func(nodestore.Entry) (v1alpha1.Reason, error)

	calls []string
	lines []string

	clock  *clocktesting.FakeClock
	client client.Client
}

func newNode(t *testing.T) *node {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	n := &node{pod: ownPod, uid: ownNode, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		listed: []handshake.Sandbox{{ID: "own", Pod: handshake.Pod{UID: ownPod}, State: handshake.StateReady}}}
	n.client = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if n.refuse != nil {
				return n.refuse
			}
			return c.Create(ctx, o, opts...)
		}}).Build()
	return n
}

func (n *node) Read() []nodestore.Reading {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, "read")
	return []nodestore.Reading{{Store: store, Entries: slices.Clone(n.entries), Defects: slices.Clone(n.defects)}}
}

func (n *node) Fingerprint() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.print
}

func (n *node) List(context.Context, sandbox.Queried) (*handshake.Listing, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, "list")
	now := n.clock.Now()
	return &handshake.Listing{Began: now, Ended: now, Runtime: "containerd 2", Sandboxes: slices.Clone(n.listed)}, n.listing
}

func (n *node) Reclaim(_ context.Context, e nodestore.Entry) (v1alpha1.Reason, error) {
	n.calls = append(n.calls, "reclaim "+e.SandboxID)
	return n.reclaim(e)
}

func (n *node) self() (types.UID, types.UID) { return n.pod, n.uid }

func (n *node) options() Options {
	return Options{NodeName: "node-1", Backends: []nodestore.Backend{nodestore.HostLocal}, Sources: []Source{n}, Lister: n, Self: n.self, Events: n.client,
		Interval: time.Minute, Settings: handshake.Settings{SandboxCreationMax: creationMax}, Clock: n.clock,
		Log: funcr.New(func(_, args string) { n.lines = append(n.lines, args) }, funcr.Options{})}
}

func (n *node) auditor(t *testing.T, change func(*Options)) *Auditor {
	t.Helper()
	o := n.options()
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// passes makes passes a minute apart.
func (n *node) passes(a *Auditor, count int) {
	for range count {
		a.pass(context.Background())
		n.clock.Step(time.Minute)
	}
}

func (n *node) events(t *testing.T) []eventsv1.Event {
	t.Helper()
	var list eventsv1.EventList
	if err := n.client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (n *node) reasons(t *testing.T) []string {
	t.Helper()
	found := []string{}
	for _, e := range n.events(t) {
		found = append(found, e.Reason)
	}
	slices.Sort(found)
	return found
}

// logged counts the log lines with a text.
func (n *node) logged(text string) int {
	count := 0
	for _, line := range n.lines {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

func findings(t *testing.T, kind v1alpha1.Reason) float64 {
	t.Helper()
	return series.Sum(t, metrics.Prefix+"node_store_findings", string(kind), string(nodestore.HostLocal))
}

func TestALeakIsOneEventOneLineAndAGauge(t *testing.T) {
	n := newNode(t)
	n.entries = []nodestore.Entry{entryOf("10.0.0.2", "a"), entryOf("10.0.0.3", "b"), entryOf("10.0.0.4", "own")}
	a := n.auditor(t, nil)
	n.passes(a, 11)
	if len(n.events(t)) != 0 || findings(t, v1alpha1.ReasonAddressLeaked) != 0 || n.logged("AddressLeaked") != 0 {
		t.Fatalf("reported after ten minutes: %v %v", n.events(t), n.lines)
	}
	n.passes(a, 20)
	if diff := cmp.Diff([]string{"AddressLeaked", "AddressLeaked"}, n.reasons(t)); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]float64{2, 2, 3}, []float64{findings(t, v1alpha1.ReasonAddressLeaked), float64(n.logged("AddressLeaked")), series.Sum(t, metrics.Prefix+"node_store_entries", "host-local")}); diff != "" {
		t.Errorf("gauge, lines, entries (-want +got)\n%s\n%q", diff, n.lines)
	}
	checkEvent(t, n.events(t)[0])

	t.Run("an agent that starts again tells it once more in its log, and not as an event", func(t *testing.T) {
		n.lines = nil
		n.passes(n.auditor(t, nil), 15)
		if len(n.events(t)) != 2 || n.logged("AddressLeaked") != 2 {
			t.Errorf("%d events, lines %q", len(n.events(t)), n.lines)
		}
	})
	t.Run("it is over when the entries are gone", func(t *testing.T) {
		n.entries, n.lines = nil, nil
		n.passes(a, 1)
		if findings(t, v1alpha1.ReasonAddressLeaked) != 0 || n.logged("over") != 2 {
			t.Errorf("gauge %v, lines %q", findings(t, v1alpha1.ReasonAddressLeaked), n.lines)
		}
	})
}

func checkEvent(t *testing.T, e eventsv1.Event) {
	t.Helper()
	want := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: ownNode}
	if diff := cmp.Diff(want, e.Regarding); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if e.Namespace != "default" || e.Type != corev1.EventTypeWarning || !strings.HasPrefix(e.Name, "node-1.") || !strings.Contains(e.Note, "10.0.0.") {
		t.Errorf("%+v", e)
	}
}

// In the other order the address of a sandbox that is being created looks leaked.
func TestTheStoresAreReadBeforeTheRuntimeIsListed(t *testing.T) {
	n := newNode(t)
	n.entries = []nodestore.Entry{entryOf("10.0.0.2", "a")}
	n.passes(n.auditor(t, nil), 2)
	if diff := cmp.Diff([]string{"read", "list", "read", "list"}, n.calls); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTheRuntimeIsNotListedWithoutEntries(t *testing.T) {
	n := newNode(t)
	n.passes(n.auditor(t, nil), 2)
	if diff := cmp.Diff([]string{"read", "read"}, n.calls); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestI5AListThatDoesNotCountProvesNothing: no finding, and no reclaim.
func TestI5AListThatDoesNotCountProvesNothing(t *testing.T) {
	cases := map[string]struct {
		change func(*node)
		result string
	}{
		"the runtime cannot be reached": {func(n *node) {
			n.listing = &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: errors.New("away")}
		}, "RuntimeUnreachable"},
		"an unclassified error":                             {func(n *node) { n.listing = errors.New("odd") }, "ListFailed"},
		"an empty list":                                     {func(n *node) { n.listed = nil }, "ListFailed"},
		"the list of another runtime":                       {func(n *node) { n.listed[0].Pod.UID = "another" }, "ListFailed"},
		"the agent's own sandbox is not ready":              {func(n *node) { n.listed[0].State = handshake.StateNotReady }, "ListFailed"},
		"the agent does not know its own pod yet":           {func(n *node) { n.pod = "" }, "ListFailed"},
		"a list that succeeded once, and failed ever since": {func(n *node) { n.listing = errors.New("odd") }, "ListFailed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.entries = []nodestore.Entry{entryOf("10.0.0.2", "a")}
			n.reclaim = func(nodestore.Entry) (v1alpha1.Reason, error) { return v1alpha1.ReasonAddressReclaimed, nil }
			a := n.auditor(t, func(o *Options) { o.Reclaimers = map[string]Reclaimer{"/networks": n} })
			n.passes(a, 1)
			tc.change(n)
			before := series.Sum(t, metrics.Prefix+"node_store_audits_total", tc.result)
			n.passes(a, 30)
			if len(n.events(t)) != 0 || findings(t, v1alpha1.ReasonAddressLeaked) != 0 || slices.Contains(n.calls, "reclaim a") {
				t.Errorf("events %v, calls %v", n.reasons(t), n.calls)
			}
			if counted := series.Sum(t, metrics.Prefix+"node_store_audits_total", tc.result) - before; counted != 30 {
				t.Errorf("%v of 30 passes counted as %s", counted, tc.result)
			}
		})
	}
}

func TestReclaim(t *testing.T) {
	cases := map[string]struct {
		source string
		reason v1alpha1.Reason
		err    error
		calls  int
		events []string
		lines  int
	}{
		"is off unless configured":            {source: "/elsewhere", events: []string{"AddressLeaked"}},
		"reports what it reclaimed":           {source: "/networks", reason: v1alpha1.ReasonAddressReclaimed, calls: 3, events: []string{"AddressLeaked", "AddressReclaimed"}, lines: 3},
		"keeps an entry that changed":         {source: "/networks", reason: v1alpha1.ReasonAddressChanged, calls: 3, events: []string{"AddressLeaked"}, lines: 3},
		"reports a failure once, and retries": {source: "/networks", err: errors.New("read-only"), calls: 3, events: []string{"AddressLeaked", "ReclaimFailed"}, lines: 1},
		"ignores a reason with an error":      {source: "/networks", reason: v1alpha1.ReasonAddressReclaimed, err: errors.New("read-only"), calls: 3, events: []string{"AddressLeaked", "ReclaimFailed"}, lines: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.entries = []nodestore.Entry{entryOf("10.0.0.2", "a"), entryOf("10.0.0.3", "own")}
			n.reclaim = func(nodestore.Entry) (v1alpha1.Reason, error) { return tc.reason, tc.err }
			a := n.auditor(t, func(o *Options) { o.Reclaimers = map[string]Reclaimer{tc.source: n} })
			n.passes(a, 14)
			want := slices.Repeat([]string{"reclaim a"}, tc.calls)
			got := slices.DeleteFunc(slices.Clone(n.calls), func(call string) bool { return !strings.HasPrefix(call, "reclaim") })
			if !slices.Equal(want, got) {
				t.Errorf("want %v, got %v", want, got)
			}
			if diff := cmp.Diff(tc.events, n.reasons(t)); diff != "" {
				t.Errorf("events (-want +got)\n%s", diff)
			}
			if got := n.logged(`"ip"="10.0.0.2"`); got != tc.lines {
				t.Errorf("want %d lines, got %q", tc.lines, n.lines)
			}
		})
	}
}

func TestReclaimingLeavesTimeForTheNextList(t *testing.T) {
	n := newNode(t)
	for i := range 60 {
		n.entries = append(n.entries, entryOf(fmt.Sprintf("10.0.0.%d", i+2), fmt.Sprintf("s%d", i)))
	}
	n.reclaim = func(nodestore.Entry) (v1alpha1.Reason, error) {
		n.clock.Step(5 * time.Second)
		return "", errors.New("the lock is kept")
	}
	a := n.auditor(t, func(o *Options) { o.Reclaimers = map[string]Reclaimer{"/networks": n} })
	n.passes(a, 12)
	tried := slices.DeleteFunc(slices.Clone(n.calls), func(call string) bool { return !strings.HasPrefix(call, "reclaim") })
	if len(tried) != 7 {
		t.Errorf("%d were tried in one pass, each for five seconds", len(tried))
	}
	n.passes(a, 1)
	if !slices.Contains(n.calls, "reclaim s7") || !slices.Contains(n.calls, "reclaim s13") {
		t.Errorf("the next pass did not try others: %v", n.calls)
	}
}

func TestEventsAreWrittenUntilItSucceeds(t *testing.T) {
	broken := nodestore.Defect{Store: store, Reason: v1alpha1.ReasonStoreBroken, Path: "/networks/cbr0/10.0.0.9", Message: "the file is empty"}
	cases := map[string]struct {
		hinder, help func(*node)
	}{
		"the API server is away":                     {func(n *node) { n.refuse = errors.New("away") }, func(n *node) { n.refuse = nil }},
		"the agent may not respond for its Node yet": {func(n *node) { n.uid = "" }, func(n *node) { n.uid = ownNode }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.defects = []nodestore.Defect{broken}
			a := n.auditor(t, nil)
			tc.hinder(n)
			n.passes(a, 3)
			if len(n.events(t)) != 0 || findings(t, v1alpha1.ReasonStoreBroken) != 1 {
				t.Fatalf("%v", n.reasons(t))
			}
			tc.help(n)
			n.passes(a, 2)
			if diff := cmp.Diff([]string{"StoreBroken"}, n.reasons(t)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
		t.Run(name+", until it is over", func(t *testing.T) {
			n := newNode(t)
			n.defects = []nodestore.Defect{broken}
			a := n.auditor(t, nil)
			tc.hinder(n)
			n.passes(a, 3)
			n.defects = nil
			n.passes(a, 1)
			tc.help(n)
			n.passes(a, 2)
			if len(n.events(t)) != 0 || findings(t, v1alpha1.ReasonStoreBroken) != 0 {
				t.Errorf("a finding that is over is reported: %v", n.reasons(t))
			}
		})
	}
}

func TestManyLeaksAreReportedInPortions(t *testing.T) {
	n := newNode(t)
	for i := range 60 {
		n.entries = append(n.entries, entryOf(fmt.Sprintf("10.0.0.%d", i+2), fmt.Sprintf("s%d", i)))
	}
	a := n.auditor(t, nil)
	n.passes(a, 12)
	for _, want := range []int{25, 50, 60, 60} {
		if got := len(n.events(t)); got != want {
			t.Errorf("want %d events, got %d", want, got)
		}
		n.passes(a, 1)
	}
}

// Every teardown passes through this state.
func TestAStoppedSandboxIsAGaugeAlone(t *testing.T) {
	n := newNode(t)
	n.entries = []nodestore.Entry{entryOf("10.0.0.2", "a")}
	n.listed = append(n.listed, handshake.Sandbox{ID: "a", Pod: handshake.Pod{UID: "p"}, State: handshake.StateNotReady})
	n.passes(n.auditor(t, nil), 15)
	if findings(t, v1alpha1.ReasonAddressOfStoppedSandbox) != 1 || len(n.events(t)) != 0 || len(n.lines) != 0 {
		t.Errorf("gauge %v, events %v, lines %q", findings(t, v1alpha1.ReasonAddressOfStoppedSandbox), n.reasons(t), n.lines)
	}
}

func TestTheNextPassIsDueOnAChangeAndByTheInterval(t *testing.T) {
	n := newNode(t)
	a := n.auditor(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Start(ctx) }()
	reads := func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.calls)
	}
	// tick lets a second pass once the loop waits for it.
	tick := func(seconds int) {
		t.Helper()
		for range seconds {
			n.await(t)
			n.clock.Step(time.Second)
		}
		n.await(t)
	}
	tick(20)
	if reads() != 1 {
		t.Errorf("%d passes in 20 seconds without a change", reads())
	}
	n.change("changed")
	tick(1)
	if reads() != 2 {
		t.Errorf("%d passes after a change", reads())
	}
	n.change("again")
	tick(4)
	if reads() != 2 {
		t.Errorf("%d passes within %s of the last one", reads(), minRest)
	}
	tick(1)
	if reads() != 3 {
		t.Errorf("%d passes %s after the last one", reads(), minRest)
	}
	tick(60)
	if reads() != 4 {
		t.Errorf("%d passes after the interval", reads())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func (n *node) change(to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.print = to
}

// await returns when the loop waits.
func (n *node) await(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); !n.clock.HasWaiters(); {
		if time.Now().After(deadline) {
			t.Fatal("the loop does not wait")
		}
		goruntime.Gosched()
	}
}

func TestNewRefuses(t *testing.T) {
	cases := map[string]func(*Options){
		"no node":               func(o *Options) { o.NodeName = "" },
		"no store":              func(o *Options) { o.Sources = nil },
		"no runtime":            func(o *Options) { o.Lister = nil },
		"no identity":           func(o *Options) { o.Self = nil },
		"no event writer":       func(o *Options) { o.Events = nil },
		"no interval":           func(o *Options) { o.Interval = 0 },
		"an interval of MaxGap": func(o *Options) { o.Interval = handshake.MaxGap },
		"no sandboxCreationMax": func(o *Options) { o.Settings.SandboxCreationMax = 0 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			o := newNode(t).options()
			change(&o)
			if _, err := New(o); err == nil {
				t.Error("accepted")
			}
		})
	}
}
