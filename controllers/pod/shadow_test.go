// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// reportingPool releases nothing.
type reportingPool struct {
	*onepod.Pool
	report *shadow.Reporter
}

func (p reportingPool) Release(ctx context.Context, requests []ipam.Request) []ipam.Result {
	var results []ipam.Result
	for _, request := range requests {
		results = append(results, ipam.Result{Request: request, Err: p.report.Withhold(ctx, shadow.Release, request.Key.String(), "")})
	}
	return results
}

// inShadow puts a reconciler into mode Shadow.
func (f *world) inShadow() *world {
	report := shadow.NewReporter()
	f.r.options.Shadow = report
	f.r.options.Backends = []ipam.Backend{reportingPool{f.Pool, report}}
	return f
}

// look reconciles after a duration, and says whether the pod and its record exist.
func (f *world) look(d time.Duration) (pod, record bool) {
	f.Helper()
	if err := shadow.Ignore(f.after(d)); err != nil {
		f.Fatalf("after %s: %v", d, err)
	}
	there := func(o client.Object, key client.ObjectKey) bool {
		err := f.Truth.Get(f.Context(), key, o)
		if err != nil && !apierrors.IsNotFound(err) {
			f.Fatal(err)
		}
		return err == nil
	}
	return there(&corev1.Pod{}, client.ObjectKey{Namespace: "default", Name: "web-1"}), there(&v1alpha1.IPAllocation{}, client.ObjectKey{Name: "old"})
}

func TestAShadowUnprotectsByTheSameProofsAndKeepsThem(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Lease("node", onepod.Now.Add(-time.Hour))).inShadow()
	for d := time.Duration(0); d < onepod.NodeGoneDelay; d += nodelife.LookInterval {
		if pod, _ := f.look(d); !pod {
			t.Fatalf("the pod was let go after %s, before its node was gone for %s", d, onepod.NodeGoneDelay)
		}
	}
	for _, d := range []time.Duration{onepod.NodeGoneDelay, onepod.NodeGoneDelay + time.Minute} {
		if pod, record := f.look(d); pod || !record {
			t.Errorf("after %s: the pod is there: %t, expected it to go; its record is: %t, expected it to stay for mode Guard", d, pod, record)
		}
	}
	if len(f.Pool.Released) > 0 || slices.Contains(f.Writes, "patch pod/status") {
		t.Errorf("released %v, wrote %v; expected nothing but the finalizer to be written of pod and pool", f.Pool.Released, f.Writes)
	}
}

// heldInShadow is a pod whose phase PodGC wrote, on a Ready node whose agent has reported the recorded sandbox gone. Of its two addresses, one is in
// the pool.
func heldInShadow(t *testing.T) (*world, *events.FakeRecorder) {
	t.Helper()
	pod := onepod.DeletedPod()
	pod.Annotations[nadv1.NetworkStatusAnnot] = `[{"name":"default/net","interface":"net1","ips":["10.0.0.5","10.0.0.6"]}]`
	f := newWorld(t, pod, onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone(), onepod.Node("node", "node-1", "m1")).inShadow()
	f.r.options.Evidence = release.EvidenceAgent
	recorder := events.NewFakeRecorder(100)
	f.r.recorder = recorder
	if pod, record := f.look(0); !pod || !record {
		t.Fatal("the finalizer was removed, and the node was not queried whether it has another sandbox of the pod")
	}
	return f, recorder
}

// aboutAny is the query about any sandbox of the pod; zero without one.
func (f *world) aboutAny() onepod.StandingQuery {
	f.Helper()
	for _, q := range f.QueriesAbout("old") {
		if q.SandboxID == v1alpha1.AnySandbox {
			return q
		}
	}
	return onepod.StandingQuery{}
}

// respondAny makes the agent report that the node has no sandbox of the pod.
func (f *world) respondAny() {
	f.Helper()
	f.respond(v1alpha1.AnySandbox, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "")
}

func TestAShadowQueriesForAnotherSandboxOfAPodThatItHolds(t *testing.T) {
	f, recorder := heldInShadow(t)
	query := f.aboutAny()
	if query.NodeUID != "node-1" || query.BootID != "m1-boot" {
		t.Fatalf("the node was not queried: %+v", query)
	}
	if pod, _ := f.look(time.Second); !pod || f.aboutAny() != query {
		t.Fatalf("the pod is there: %t, the query is %+v; expected both to stay as they were (%+v) until the agent has responded", pod, f.aboutAny(), query)
	}
	close(recorder.Events)
	var lines []string
	for e := range recorder.Events {
		lines = append(lines, e)
	}
	if !slices.ContainsFunc(lines, func(e string) bool {
		return strings.Contains(e, "apart from addresses of sandboxes that are proven gone, which stay in their pools")
	}) {
		t.Errorf("no event has the reason of the wait: %q", lines)
	}
	f.r.recorder = events.NewFakeRecorder(100)

	f.respondAny()
	if pod, record := f.look(2 * time.Second); pod || !record {
		t.Errorf("the pod is there: %t, expected it to be gone; its record is: %t, expected it to stay for mode Guard", pod, record)
	}
	f.look(3 * time.Second)
	if query := f.aboutAny(); query.NodeUID != "" {
		t.Errorf("the query %+v stands although no pod needs a response any more", query)
	}
	if _, record := f.look(4 * time.Second); !record || len(f.Pool.Released) > 0 {
		t.Errorf("the record is there: %t, released %v; expected the proof and the address to stay", record, f.Pool.Released)
	}
}

func TestAnEntryOfAnotherSandboxMakesTheQueryVoidInShadowToo(t *testing.T) {
	f, _ := heldInShadow(t)
	f.respondAny()
	second := onepod.HeldByOld()[0]
	second.IP, second.SandboxID = netip.MustParseAddr("10.0.0.6"), "second-sandbox"
	f.Pool.Entries = append(f.Pool.Entries, second)
	for _, d := range []time.Duration{time.Second, 2 * time.Second} {
		if pod, _ := f.look(d); !pod {
			t.Fatalf("after %s the finalizer was removed by a response from before the second sandbox had an address", d)
		}
	}
	if void := f.aboutAny(); void.NodeUID != "" {
		t.Errorf("the query %+v still stands", void)
	}
}

func TestOnlyWithheldEntriesOfAHeldPodCountAsNone(t *testing.T) {
	deleted, living, free := onepod.DeletedPod(), onepod.PodOf("old", "10.0.0.5"), onepod.DeletedPod()
	living.Finalizers, free.Finalizers = []string{v1alpha1.Finalizer}, nil
	proven, record := facts.Queries{Record: "old", Objects: []v1alpha1.GuardedNode{*onepod.Gone()}}, onepod.RecordOfOld(onepod.OldMachine())
	second := onepod.HeldByOld()[0]
	second.SandboxID = "second-sandbox"
	cases := map[string]struct {
		report  *shadow.Reporter
		pod     *corev1.Pod
		queries facts.Queries
		more    []facts.Held
		want    bool
	}{
		"a sandbox that is proven gone":                          {shadow.NewReporter(), deleted, proven, nil, true},
		"the same in mode Guard, where its entry will be gone":   {nil, deleted, proven, nil, false},
		"a sandbox on which no agent reported":                   {shadow.NewReporter(), deleted, facts.Queries{Record: "old"}, nil, false},
		"one that is proven gone, and another one":               {shadow.NewReporter(), deleted, proven, []facts.Held{{Entry: second}}, false},
		"a pod that lives":                                       {shadow.NewReporter(), living, proven, nil, false},
		"a pod that was never held, so that nothing waits":       {shadow.NewReporter(), free, proven, nil, false},
		"a pod that is gone, and whose record waits for nothing": {shadow.NewReporter(), nil, proven, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &Reconciler{options: Options{Evidence: release.EvidenceAgent, Shadow: tc.report}}
			v := &view{uid: "old", pod: tc.pod, podFact: release.Absent[release.Pod](), record: record, queries: tc.queries, node: release.Known(facts.Node(onepod.Node("node", "node-1", "m1"))),
				held: append([]facts.Held{{Entry: onepod.HeldByOld()[0]}}, tc.more...), heldRead: release.Known(struct{}{})}
			if tc.pod != nil {
				v.podFact = release.Known(release.Pod{Deleting: tc.pod.DeletionTimestamp != nil, Bound: true, Ending: release.EndingForeign})
			}
			d := release.Decide(v.observation(c.options), onepod.Now)
			if kept := !v.isVoid(d, facts.QueryKey{SandboxID: v1alpha1.AnySandbox}); kept != tc.want {
				t.Errorf("the query for any sandbox stands: %t, want %t", kept, tc.want)
			}
		})
	}
}

func TestAShadowQueriesOnlyAboutWhatTheGuardHolds(t *testing.T) {
	held := onepod.DeletedPod()
	living := onepod.PodOf("old", "10.0.0.5")
	living.Finalizers = []string{v1alpha1.Finalizer}
	free := onepod.DeletedPod()
	free.Finalizers = nil
	cases := map[string]struct {
		report  *shadow.Reporter
		pod     *corev1.Pod
		queries bool
	}{
		"a pod that is held":                {shadow.NewReporter(), held, true},
		"a pod that lives":                  {shadow.NewReporter(), living, false},
		"a pod that was never held":         {shadow.NewReporter(), free, false},
		"a pod that is gone":                {shadow.NewReporter(), nil, false},
		"a pod that is gone, in mode Guard": {nil, nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{options: Options{Shadow: tc.report}}
			err := r.mayQuery(t.Context(), &view{uid: "old", pod: tc.pod}, release.Decision{})
			if (err == nil) != tc.queries || (err != nil && !errors.Is(err, shadow.ErrWithheld)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// One sandbox of a completed pod that is not deleted is proven gone. In mode Shadow no node is queried about the other.
func TestAShadowQueriesNoNodeAboutTheOtherSandboxOfACompletedPod(t *testing.T) {
	pod := onepod.FinishedPod()
	pod.DeletionTimestamp = nil
	record := onepod.RecordOfOld(onepod.OldMachine())
	second, address := record.Spec.Sandboxes[0], record.Spec.Addresses[0]
	second.ID, address.SandboxID, address.IP = "second-sandbox", "second-sandbox", "10.0.0.6"
	record.Spec.Sandboxes, record.Spec.Addresses = append(record.Spec.Sandboxes, second), append(record.Spec.Addresses, address)
	f := newWorld(t, pod, record, onepod.Gone(), onepod.Node("node", "node-1", "m1")).inShadow()
	entry := onepod.HeldByOld()[0]
	entry.IP, entry.SandboxID = netip.MustParseAddr("10.0.0.6"), "second-sandbox"
	f.Pool.Entries = append(f.Pool.Entries, entry)
	f.r.options.Evidence = release.EvidenceAgent
	f.r.recorder = events.NewFakeRecorder(100)
	for _, d := range []time.Duration{0, time.Hour, time.Hour + time.Second} { // its end counts once it was seen for a while
		f.look(d)
	}
	if about := f.QueriesAbout("old"); slices.ContainsFunc(about, func(q onepod.StandingQuery) bool { return q.SandboxID == "second-sandbox" }) {
		t.Errorf("its node was queried about the second sandbox: %+v", about)
	}
}
