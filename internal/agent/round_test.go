// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// writeMachine makes the files of a machine.
func writeMachine(t *testing.T, boot, machine string) MachineFiles {
	t.Helper()
	dir := t.TempDir()
	files := MachineFiles{MachineID: filepath.Join(dir, "machine-id"), BootID: filepath.Join(dir, "boot_id"), SystemUUID: filepath.Join(dir, "absent")}
	for path, content := range map[string]string{files.MachineID: machine, files.BootID: boot} {
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// stubLister is a runtime that lists what the test says, beside the agent's own sandbox.
type stubLister struct {
	clock     *clocktesting.FakeClock
	sandboxes []handshake.Sandbox
	alone     bool
	err       error
	during    func()
	asked     sandbox.Asked
}

func (s *stubLister) List(_ context.Context, asked sandbox.Asked) (*handshake.Listing, error) {
	s.asked = asked
	l := &handshake.Listing{Began: s.clock.Now(), Ended: s.clock.Now(), TellsNamespaces: true, Runtime: "containerd 1"}
	if !s.alone {
		l.Sandboxes = append(l.Sandboxes, handshake.Sandbox{ID: "own", Pod: handshake.Pod{UID: podUID}, State: handshake.StateReady})
	}
	l.Sandboxes = append(l.Sandboxes, s.sandboxes...)
	if s.during != nil {
		s.during()
	}
	return l, s.err
}

// bench is an agent whose rounds the test makes.
type bench struct {
	*Agent
	api    *stubAPI
	clock  *clocktesting.FakeClock
	lister *stubLister
	events *events.FakeRecorder
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{api: newStubAPI(), clock: newClock(), events: events.NewFakeRecorder(100)}
	b.lister = &stubLister{clock: b.clock}
	agent, err := New(Options{NodeName: nodeName, Client: b.api, Lister: b.lister, Machine: writeMachine(t, bootID, "machine"), Recorder: b.events,
		LeaseNamespace: "holdfast-agent", ListInterval: time.Second, Settings: handshake.Settings{SandboxCreationMax: 10 * time.Minute}, Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.Agent = agent
	t.Cleanup(agent.writer.queue.ShutDown)
	b.list(t)
	return b
}

// list brings a complete list of both watches.
func (b *bench) list(t *testing.T, own ...any) {
	t.Helper()
	if err := errors.Join(b.own.Replace(own, "100"), b.all.Replace(nil, "100")); err != nil {
		t.Fatal(err)
	}
}

// marked is a record of the node with a mark about sandbox s0.
func marked(name string, at int64, asks types.UID, epoch int64) *v1alpha1.IPAllocation {
	record := recordAt(name, at, epoch)
	record.Spec.Marks[0].NodeUID = asks
	if asks != "" {
		record.Spec.Marks[0].BootID = bootID
	}
	return record
}

// said are the answers that wait to be written into a record; nil if nothing does.
func (b *bench) said(name string) []outcome {
	s := b.writer.waiting[name]
	if s == nil {
		return nil
	}
	got := []outcome{}
	for _, a := range s.answers {
		got = append(got, outcome{a.Verdict, v1alpha1.Reason(a.Reason), a.PodUID, a.Epoch})
	}
	return got
}

type outcome struct {
	Verdict v1alpha1.Verdict
	Reason  v1alpha1.Reason
	PodUID  types.UID
	Epoch   int64
}

func sandboxS0(uid types.UID) handshake.Sandbox {
	return handshake.Sandbox{ID: "s0", Pod: handshake.Pod{UID: uid, Namespace: "default", Name: "web-0"}, State: handshake.StateReady}
}

// answeredBefore puts an answer into the record.
func answeredBefore(record *v1alpha1.IPAllocation, verdict v1alpha1.Verdict, reason v1alpha1.Reason, pod types.UID, boot string, epoch int64) *v1alpha1.IPAllocation {
	record.Status.Answers = []v1alpha1.Answer{{SandboxID: record.Spec.Marks[0].SandboxID, NodeUID: nodeUID, Epoch: epoch, Verdict: verdict, Reason: string(reason), PodUID: pod, BootID: boot,
		Time: metav1.NewTime(start)}}
	return record
}

func TestRound(t *testing.T) {
	do, ready := v1alpha1.VerdictDoNotRelease, v1alpha1.VerdictReadyForRelease
	cases := map[string]struct {
		record *v1alpha1.IPAllocation
		before []handshake.Sandbox // an earlier round's list
		listed []handshake.Sandbox
		alone  bool
		err    error
		want   []outcome
		silent v1alpha1.Reason
	}{
		"a living sandbox": {record: marked("web", 90, nodeUID, 1), listed: []handshake.Sandbox{sandboxS0("web")},
			want: []outcome{{do, v1alpha1.ReasonSandboxReady, "web", 1}}},
		"a sandbox that was seen and went": {record: marked("web", 90, nodeUID, 1), before: []handshake.Sandbox{sandboxS0("web")},
			want: []outcome{{ready, v1alpha1.ReasonSandboxAbsent, "web", 1}}},
		"a sandbox that was never seen": {record: marked("web", 90, nodeUID, 1), want: []outcome{{do, v1alpha1.ReasonSandboxNotSeen, "", 1}}},
		"what the record says already is not written again": {
			record: answeredBefore(marked("web", 90, nodeUID, 1), do, v1alpha1.ReasonSandboxReady, "web", bootID, 1), listed: []handshake.Sandbox{sandboxS0("web")}},
		"another epoch is answered anew": {
			record: answeredBefore(marked("web", 90, nodeUID, 2), do, v1alpha1.ReasonSandboxReady, "web", bootID, 1), listed: []handshake.Sandbox{sandboxS0("web")},
			want: []outcome{{do, v1alpha1.ReasonSandboxReady, "web", 2}}},
		"DoNotRelease is not final": {
			record: answeredBefore(marked("web", 90, nodeUID, 1), do, v1alpha1.ReasonSandboxReady, "web", bootID, 1),
			want:   []outcome{{ready, v1alpha1.ReasonSandboxAbsent, "web", 1}}},
		"ReadyForRelease is final": {
			record: answeredBefore(marked("web", 90, nodeUID, 1), ready, v1alpha1.ReasonSandboxAbsent, "web", bootID, 1), err: errors.New("down")},
		"what an agent saw in an earlier boot is not seen": {
			record: answeredBefore(marked("web", 90, nodeUID, 2), do, v1alpha1.ReasonSandboxReady, "web", "earlier", 1),
			want:   []outcome{{do, v1alpha1.ReasonSandboxNotSeen, "", 2}}},
		"what an agent never saw is not seen": {
			record: answeredBefore(marked("web", 90, nodeUID, 2), do, v1alpha1.ReasonSandboxNotSeen, "", bootID, 1),
			want:   []outcome{{do, v1alpha1.ReasonSandboxNotSeen, "", 2}}},
		"a mark that asks another Node UID": {record: marked("web", 90, "earlier", 1), listed: []handshake.Sandbox{sandboxS0("web")},
			silent: v1alpha1.ReasonNotThisMachine},
		"a runtime that cannot be reached": {record: marked("web", 90, nodeUID, 1),
			err:  &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: errors.New("no socket")},
			want: []outcome{}, silent: v1alpha1.ReasonRuntimeUnreachable},
		"a list that fails": {record: marked("web", 90, nodeUID, 1), err: errors.New("locked"), want: []outcome{}, silent: v1alpha1.ReasonListFailed},
		"a list without the agent's own sandbox": {record: marked("web", 90, nodeUID, 1), before: []handshake.Sandbox{sandboxS0("web")}, alone: true,
			want: []outcome{}, silent: v1alpha1.ReasonListFailed},
		"a UID conflict": {record: marked("web", 90, nodeUID, 1),
			listed: []handshake.Sandbox{sandboxS0("web"), {ID: "s1", Pod: sandboxS0("web").Pod, State: handshake.StateReady}},
			want:   []outcome{}, silent: v1alpha1.ReasonUIDConflict},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lister.sandboxes = tc.before
			b.round(t.Context())
			b.clock.Step(time.Second)
			b.list(t, tc.record)
			b.lister.sandboxes, b.lister.alone, b.lister.err = tc.listed, tc.alone, tc.err
			b.round(t.Context())
			if diff := cmp.Diff(tc.want, b.said(tc.record.Name)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if waiting := b.writer.waiting[tc.record.Name]; tc.silent != "" && tc.want != nil && (waiting == nil || waiting.condition.Reason != string(tc.silent)) {
				t.Errorf("the record is not told: %+v", waiting)
			}
			if tc.silent != "" {
				wantEvent(t, b.events, string(tc.silent))
			}
		})
	}
}

func wantEvent(t *testing.T, recorder *events.FakeRecorder, reason string) {
	t.Helper()
	select {
	case got := <-recorder.Events:
		if len(got) < len("Warning "+reason) || got[:len("Warning "+reason)] != "Warning "+reason {
			t.Errorf("event %q", got)
		}
	default:
		t.Errorf("there is no event %s", reason)
	}
}

func TestAMarkThatComesWhileTheRuntimeIsListedWaitsForTheNextList(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.round(t.Context())
	b.lister.sandboxes = nil // gone, and
	b.lister.during = func() {
		b.clock.Step(time.Second)
		b.list(t, marked("web", 90, nodeUID, 1))
	}
	b.round(t.Context())
	if got := b.said("web"); got != nil {
		t.Fatalf("answered by a list that began before: %v", got)
	}
	b.lister.during = nil
	b.round(t.Context())
	if diff := cmp.Diff([]outcome{{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "web", 1}}, b.said("web")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A pod that is being deleted, whose sandbox no agent saw: first that sandbox is asked about and then, its entry released, any of the pod.
func TestTheTimeOfASandboxInTheMakingIsWaitedForOnce(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.Mark)
		want   outcome
	}{
		"asked once the pod had ended":   {func(*v1alpha1.Mark) {}, outcome{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonNoSandbox, "", 2}},
		"asked while the pod lived":      {func(m *v1alpha1.Mark) { m.Living = true }, outcome{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, "", 2}},
		"asked because its node is dead": {func(m *v1alpha1.Mark) { m.Fence = true }, outcome{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, "", 2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			about := marked("web", 90, nodeUID, 1)
			tc.change(&about.Spec.Marks[0])
			b.list(t, about)
			for range 12 {
				b.round(t.Context())
				b.clock.Step(time.Minute)
			}
			if diff := cmp.Diff([]outcome{{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxNeverListed, "", 1}}, b.said("web")); diff != "" {
				t.Fatalf("about the sandbox (-want +got)\n%s", diff)
			}
			b.list(t, recordAt("web", 91)) // its entry is released, and its mark taken back
			b.round(t.Context())
			b.clock.Step(time.Second)
			every := marked("web", 92, nodeUID, 2)
			every.Spec.Marks[0].SandboxID = v1alpha1.AnySandbox
			b.list(t, every)
			b.round(t.Context())
			if diff := cmp.Diff([]outcome{tc.want}, b.said("web")); diff != "" {
				t.Errorf("about any sandbox of the pod (-want +got)\n%s", diff)
			}
		})
	}
}

func TestNetworkNamespacesAreAskedOfWhatIsOpenOnly(t *testing.T) {
	b := newBench(t)
	b.list(t, marked("web", 90, nodeUID, 1), answeredBefore(recordWith("done", "s9"), v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "done", bootID, 1))
	b.round(t.Context())
	if !b.lister.asked.IDs.Has("s0") || b.lister.asked.IDs.Has("s9") {
		t.Errorf("asked about %v", b.lister.asked)
	}
}

// recordWith is a record whose only mark, and answer, is about another sandbox.
func recordWith(name, id string) *v1alpha1.IPAllocation {
	record := marked(name, 90, nodeUID, 1)
	record.Spec.Marks[0].SandboxID = id
	record.Status.Answers = nil
	return record
}

func TestNothingIsReadFromTheAPIServerWhileNobodyAsks(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	before := b.api.reads
	for range 100 {
		b.clock.Step(time.Minute)
		b.round(t.Context())
	}
	if b.api.reads != before {
		t.Errorf("%d reads in 100 rounds", b.api.reads-before)
	}
}

func TestASilenceIsToldOnceAndItsEndToo(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	record := marked("web", 90, nodeUID, 1)
	b.list(t, record)
	b.lister.err = errors.New("locked")
	for range 3 {
		b.round(t.Context())
	}
	record = record.DeepCopy()
	record.Status.Conditions = []metav1.Condition{*b.writer.waiting["web"].condition}
	wantEvent(t, b.events, string(v1alpha1.ReasonListFailed))
	b.lister.err, b.lister.sandboxes = nil, []handshake.Sandbox{sandboxS0("web")}
	b.list(t, record)
	b.round(t.Context())
	if got := b.writer.waiting["web"].condition; got.Status != metav1.ConditionTrue || got.Reason != string(v1alpha1.ReasonAnswered) {
		t.Errorf("got %+v", got)
	}
	if len(b.events.Events) != 1 {
		t.Errorf("%d events, not the one of the end", len(b.events.Events))
	}
}

func TestWhatMarksToAllAreAcknowledged(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	orphan := marked("orphan-s0", 110, "", 1)
	if err := b.all.Add(orphan); err != nil {
		t.Fatal(err)
	}
	b.all.UpdateResourceVersion("110")
	for range 11 {
		b.round(t.Context())
		if _, leases := b.api.count(); leases != 0 {
			t.Fatal("acknowledged before sandboxCreationMax was over")
		}
		b.clock.Step(time.Minute - time.Second)
	}
	b.clock.Step(time.Minute)
	b.all.UpdateResourceVersion("150")
	for range 5 {
		b.clock.Step(time.Second)
		b.round(t.Context())
	}
	if _, leases := b.api.count(); leases != 1 {
		t.Fatalf("%d acknowledgements of one mark", leases)
	}
	want := map[string]string{v1alpha1.AcknowledgedVersionAnnotation: "150", v1alpha1.AcknowledgedNodeUIDAnnotation: string(nodeUID),
		v1alpha1.AcknowledgedBootIDAnnotation: bootID, v1alpha1.AcknowledgedTimeAnnotation: b.api.leases[0].Annotations[v1alpha1.AcknowledgedTimeAnnotation]}
	if diff := cmp.Diff(want, b.api.leases[0].Annotations); diff != "" || *b.api.leases[0].Name != "holdfast-agent-node-a" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if b.said("orphan-s0") != nil {
		t.Error("a node that never had the sandbox says something about it")
	}
}

func TestAClaimIsWrittenBeforeItIsAcknowledged(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.round(t.Context())
	orphan := marked("orphan-s0", 110, "", 1)
	if err := b.all.Add(orphan); err != nil {
		t.Fatal(err)
	}
	b.all.UpdateResourceVersion("110")
	b.round(t.Context())
	b.round(t.Context())
	if diff := cmp.Diff([]outcome{{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "web", 1}}, b.said("orphan-s0")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, leases := b.api.count(); leases != 0 {
		t.Fatal("acknowledged with the claim unwritten")
	}
	claimed := answeredBefore(orphan.DeepCopy(), v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "web", bootID, 1)
	claimed.ResourceVersion = "120"
	if err := b.all.Update(claimed); err != nil {
		t.Fatal(err)
	}
	b.all.UpdateResourceVersion("120")
	b.round(t.Context())
	if _, leases := b.api.count(); leases != 1 {
		t.Error("the claim is written, and not acknowledged")
	}
}

func TestAClaimOfAnEarlierBootSettlesNothing(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	claimed := answeredBefore(marked("orphan-s0", 110, "", 1), v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "web", "earlier", 1)
	if err := b.all.Replace([]any{claimed}, "200"); err != nil {
		t.Fatal(err)
	}
	b.round(t.Context())
	if _, leases := b.api.count(); leases != 0 {
		t.Error("acknowledged before the claim of this boot is written")
	}
	if got := b.writer.waiting["orphan-s0"]; got == nil || got.answers[0].BootID != bootID {
		t.Errorf("the claim is not said for this boot: %+v", got)
	}
}

func TestAnEarlierAcknowledgementOfThisNodeAndBootStands(t *testing.T) {
	cases := map[string]struct {
		uid, boot string
		want      int
	}{
		"of this Node and boot: quiet":   {string(nodeUID), bootID, 0},
		"of an earlier Node: said again": {"earlier", bootID, 1},
		"of an earlier boot: said again": {string(nodeUID), "earlier", 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.api.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AcknowledgedVersionAnnotation: "110",
				v1alpha1.AcknowledgedNodeUIDAnnotation: tc.uid, v1alpha1.AcknowledgedBootIDAnnotation: tc.boot}}}
			claimed := answeredBefore(marked("orphan-s0", 110, "", 1), v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxOfThisNode, "web", bootID, 1)
			if err := b.all.Replace([]any{claimed}, "200"); err != nil {
				t.Fatal(err)
			}
			b.round(t.Context())
			b.round(t.Context())
			if _, leases := b.api.count(); leases != tc.want {
				t.Errorf("%d acknowledgements", leases)
			}
		})
	}
}

func TestProbes(t *testing.T) {
	b := newBench(t)
	if b.Healthz(nil) != nil || b.Readyz(nil) == nil {
		t.Error("before the first round the agent is alive and not ready")
	}
	b.round(t.Context())
	if err := errors.Join(b.Healthz(nil), b.Readyz(nil)); err != nil {
		t.Error(err)
	}
	b.lister.err = errors.New("locked")
	b.round(t.Context())
	if b.Readyz(nil) == nil {
		t.Error("ready with no list")
	}
	b.clock.Step(stuckAfter + time.Second)
	if b.Healthz(nil) == nil {
		t.Error("alive with no round")
	}
}

func TestAHintShortensAWaitAndMakesNone(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	<-b.poked
	b.hint()
	if len(b.poked) != 0 {
		t.Error("an event of the runtime makes a round while nobody asks")
	}
	b.list(t, marked("web", 90, nodeUID, 1))
	b.round(t.Context())
	<-b.poked
	b.hint()
	if len(b.poked) != 1 {
		t.Error("an event of the runtime is no hint while a question is open")
	}
}

func TestAMarkToAllThatComesWhileTheRuntimeIsListedIsNotAcknowledgedWithIt(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	claimed := answeredBefore(marked("orphan-s0", 110, "", 1), v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "web", bootID, 1)
	if err := b.all.Replace([]any{claimed}, "120"); err != nil {
		t.Fatal(err)
	}
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.lister.during = func() {
		if err := b.all.Add(marked("orphan-s1", 130, "", 1)); err != nil {
			t.Error(err)
		}
		b.all.UpdateResourceVersion("130")
	}
	b.round(t.Context())
	if _, leases := b.api.count(); leases != 1 {
		t.Fatalf("%d acknowledgements", leases)
	}
	if got := b.api.leases[0].Annotations[v1alpha1.AcknowledgedVersionAnnotation]; got != "120" {
		t.Errorf("acknowledged version %s", got)
	}
}
