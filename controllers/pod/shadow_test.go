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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// reportingPool gives nothing back.
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

// inShadow makes a shadow of a reconciler.
func (f *world) inShadow() *world {
	report := shadow.NewReporter()
	f.r.options.Shadow = report
	f.r.options.Backends = []ipam.Backend{reportingPool{f.Pool, report}}
	return f
}

// look reconciles after that long, and says whether the pod and its record are there.
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

func TestAShadowLetsAPodGoByTheSameProofsAndKeepsThem(t *testing.T) {
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

// gone is the word of a node that a sandbox is gone.
func gone(record *v1alpha1.IPAllocation) *v1alpha1.IPAllocation {
	record.Spec.Marks = []v1alpha1.Mark{{SandboxID: "old-sandbox", NodeUID: "node-1", BootID: "m1-boot", Epoch: 1, Time: metav1.NewTime(onepod.Now.Add(-time.Minute))}}
	record.Status.Answers = []v1alpha1.Answer{{SandboxID: "old-sandbox", NodeUID: "node-1", BootID: "m1-boot", Epoch: 1, Verdict: v1alpha1.VerdictReadyForRelease,
		Reason: string(v1alpha1.ReasonSandboxAbsent), Time: metav1.NewTime(onepod.Now.Add(-time.Minute))}}
	return record
}

// heldInShadow is a pod that PodGC ended, on a Ready node whose agent has said that the one sandbox on record is gone. Of the two
// addresses that it showed, one stands in the pool.
func heldInShadow(t *testing.T) (*world, *events.FakeRecorder) {
	t.Helper()
	pod := onepod.DeletedPod()
	pod.Annotations[nadv1.NetworkStatusAnnot] = `[{"name":"default/net","interface":"net1","ips":["10.0.0.5","10.0.0.6"]}]`
	f := newWorld(t, pod, gone(onepod.RecordOfOld(onepod.OldMachine())), onepod.Node("node", "node-1", "m1")).inShadow()
	f.r.options.Evidence = release.EvidenceAgent
	f.r.options.Handshakes = Handshakes{MaxInFlight: 1, MaxInFlightPerNode: 1}
	recorder := events.NewFakeRecorder(100)
	f.r.recorder = recorder
	if pod, record := f.look(0); !pod || !record {
		t.Fatal("the pod was let go, and nobody has asked its node whether it has another sandbox of it")
	}
	return f, recorder
}

// aboutAny is the question whether the node has any sandbox of the pod, as the record has it; zero without one.
func (f *world) aboutAny() release.Mark {
	f.Helper()
	return release.AskedOf(f.Record(), v1alpha1.AnySandbox).Mark.Get()
}

// answerAny is the word of the node that it has no sandbox of the pod, to that question.
func (f *world) answerAny(question release.Mark) {
	f.Helper()
	record := f.Record()
	record.Status.Answers = append(record.Status.Answers, v1alpha1.Answer{SandboxID: v1alpha1.AnySandbox, NodeUID: question.NodeUID, BootID: question.BootID,
		Epoch: question.Epoch, Verdict: v1alpha1.VerdictReadyForRelease, Reason: string(v1alpha1.ReasonSandboxAbsent), Time: metav1.NewTime(onepod.Now)})
	if err := f.Truth.Status().Update(f.Context(), record); err != nil {
		f.Fatal(err)
	}
}

func TestAShadowAsksForAnotherSandboxOfAPodThatItHolds(t *testing.T) {
	f, recorder := heldInShadow(t)
	question := f.aboutAny()
	if question.NodeUID != "node-1" || question.BootID != "m1-boot" {
		t.Fatalf("the node was not asked: %+v", question)
	}
	if pod, _ := f.look(time.Second); !pod || f.aboutAny() != question {
		t.Fatalf("the pod is there: %t, the question is %+v; expected both to stay as they were (%+v) until the node has answered", pod, f.aboutAny(), question)
	}
	close(recorder.Events)
	var said []string
	for e := range recorder.Events {
		said = append(said, e)
	}
	if !slices.ContainsFunc(said, func(e string) bool {
		return strings.Contains(e, "apart from addresses of sandboxes that are proven gone, which stay in their pools")
	}) {
		t.Errorf("nobody was told what the pod waits for: %q", said)
	}
	f.r.recorder = events.NewFakeRecorder(100)

	f.answerAny(question)
	if pod, record := f.look(2 * time.Second); pod || !record {
		t.Errorf("the pod is there: %t, expected it to go; its record is: %t, expected it to stay for mode Guard", pod, record)
	}
	f.look(3 * time.Second)
	if question := f.aboutAny(); question.NodeUID != "" {
		t.Errorf("the question %+v stands although nobody waits for an answer any more", question)
	}
	if _, record := f.look(4 * time.Second); !record || len(f.Pool.Released) > 0 {
		t.Errorf("the record is there: %t, released %v; expected the proof and the address to stay", record, f.Pool.Released)
	}
}

func TestAnEntryOfAnotherSandboxMakesTheQuestionVoidInShadowToo(t *testing.T) {
	f, _ := heldInShadow(t)
	question := f.aboutAny()
	f.answerAny(question)
	second := onepod.HeldByOld()[0]
	second.IP, second.SandboxID = netip.MustParseAddr("10.0.0.6"), "second-sandbox"
	f.Pool.Entries = append(f.Pool.Entries, second)
	for _, d := range []time.Duration{time.Second, 2 * time.Second} {
		if pod, _ := f.look(d); !pod {
			t.Fatalf("after %s the pod was let go by an answer from before its second sandbox had an address", d)
		}
	}
	if void := f.aboutAny(); void.NodeUID != "" {
		t.Errorf("the question %+v still stands", void)
	}
}

func TestOnlyWhatAShadowWithholdsFromAPodThatIsHeldCountsAsNothing(t *testing.T) {
	deleted, living, free := onepod.DeletedPod(), onepod.PodOf("old", "10.0.0.5"), onepod.DeletedPod()
	living.Finalizers, free.Finalizers = []string{v1alpha1.Finalizer}, nil
	proven := gone(onepod.RecordOfOld(onepod.OldMachine()))
	second := onepod.HeldByOld()[0]
	second.SandboxID = "second-sandbox"
	cases := map[string]struct {
		report *shadow.Reporter
		pod    *corev1.Pod
		record *v1alpha1.IPAllocation
		more   []facts.Held
		want   bool
	}{
		"a sandbox that is proven gone":                          {shadow.NewReporter(), deleted, proven, nil, true},
		"the same in mode Guard, where its entry will be gone":   {nil, deleted, proven, nil, false},
		"a sandbox of which nobody knows":                        {shadow.NewReporter(), deleted, onepod.RecordOfOld(onepod.OldMachine()), nil, false},
		"one that is proven gone, and another one":               {shadow.NewReporter(), deleted, proven, []facts.Held{{Entry: second}}, false},
		"a pod that lives":                                       {shadow.NewReporter(), living, proven, nil, false},
		"a pod that was never held, so that nothing waits":       {shadow.NewReporter(), free, proven, nil, false},
		"a pod that is gone, and whose record waits for nothing": {shadow.NewReporter(), nil, proven, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &Reconciler{options: Options{Evidence: release.EvidenceAgent, Shadow: tc.report}}
			v := &view{uid: "old", pod: tc.pod, podFact: release.Absent[release.Pod](), record: tc.record, node: release.Known(facts.Node(onepod.Node("node", "node-1", "m1"))),
				held: append([]facts.Held{{Entry: onepod.HeldByOld()[0]}}, tc.more...), heldRead: release.Known(struct{}{})}
			if tc.pod != nil {
				v.podFact = release.Known(release.Pod{Deleting: tc.pod.DeletionTimestamp != nil, Bound: true, Ending: release.EndingForeign})
			}
			d := release.Decide(v.observation(c.options), onepod.Now)
			if kept := !v.isVoid(d, v1alpha1.Mark{SandboxID: v1alpha1.AnySandbox}); kept != tc.want {
				t.Errorf("the query for any sandbox stands: %t, want %t", kept, tc.want)
			}
		})
	}
}

func TestAShadowAsksOnlyAboutWhatTheGuardHolds(t *testing.T) {
	held := onepod.DeletedPod()
	living := onepod.PodOf("old", "10.0.0.5")
	living.Finalizers = []string{v1alpha1.Finalizer}
	free := onepod.DeletedPod()
	free.Finalizers = nil
	cases := map[string]struct {
		report *shadow.Reporter
		pod    *corev1.Pod
		asks   bool
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
			err := r.mayAsk(t.Context(), &view{uid: "old", pod: tc.pod}, release.Decision{})
			if (err == nil) != tc.asks || (err != nil && !errors.Is(err, shadow.ErrWithheld)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// One sandbox of a pod that has completed, and that nobody deletes, is proven gone. Of the other nobody is asked in a shadow.
func TestAShadowAsksNobodyAboutTheOtherSandboxOfACompletedPod(t *testing.T) {
	pod := onepod.FinishedPod()
	pod.DeletionTimestamp = nil
	record := gone(onepod.RecordOfOld(onepod.OldMachine()))
	second, address := record.Spec.Sandboxes[0], record.Spec.Addresses[0]
	second.ID, address.SandboxID, address.IP = "second-sandbox", "second-sandbox", "10.0.0.6"
	record.Spec.Sandboxes, record.Spec.Addresses = append(record.Spec.Sandboxes, second), append(record.Spec.Addresses, address)
	f := newWorld(t, pod, record, onepod.Node("node", "node-1", "m1")).inShadow()
	entry := onepod.HeldByOld()[0]
	entry.IP, entry.SandboxID = netip.MustParseAddr("10.0.0.6"), "second-sandbox"
	f.Pool.Entries = append(f.Pool.Entries, entry)
	f.r.options.Evidence = release.EvidenceAgent
	f.r.options.Handshakes = Handshakes{MaxInFlight: 1, MaxInFlightPerNode: 1}
	f.r.recorder = events.NewFakeRecorder(100)
	for _, d := range []time.Duration{0, time.Hour, time.Hour + time.Second} { // its end counts once it was seen for a while
		f.look(d)
	}
	live := &v1alpha1.IPAllocation{}
	if err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, live); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(live.Spec.Marks, func(m v1alpha1.Mark) bool { return m.SandboxID == "second-sandbox" }) {
		t.Errorf("its node was asked about the second sandbox: %+v", live.Spec.Marks)
	}
}
