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
		ListInterval: time.Second, Settings: handshake.Settings{SandboxCreationMax: 10 * time.Minute}, Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.Agent = agent
	t.Cleanup(agent.writer.queue.ShutDown)
	b.list(t)
	return b
}

// query brings the AllNodesQuery with a query about each sandbox, the epoch of which is its place.
func (b *bench) query(sandboxes ...string) error {
	b.api.all = nil
	if len(sandboxes) == 0 {
		return b.all.Replace(nil, "")
	}
	b.api.all = &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AllNodesQueryName, UID: "all", Generation: int64(len(sandboxes))}}
	for i, id := range sandboxes {
		b.api.all.Spec.Queries = append(b.api.all.Spec.Queries, v1alpha1.OrphanQuery{SandboxID: id, Epoch: int64(i + 1)})
	}
	return b.all.Replace([]any{b.api.all.DeepCopy()}, "")
}

// asks is query where that cannot fail.
func (b *bench) asks(t *testing.T, sandboxes ...string) {
	t.Helper()
	if err := b.query(sandboxes...); err != nil {
		t.Fatal(err)
	}
}

// responds demands what was last written into the GuardedNode, after that many writes: the generation, and what is claimed.
func (b *bench) responds(t *testing.T, writes int, generation int64, claimed ...string) {
	t.Helper()
	if got := len(b.api.responses); got != writes {
		t.Fatalf("%d responses, expected %d", got, writes)
	}
	if writes == 0 {
		return
	}
	last := b.api.responses[writes-1]
	var got []string
	for _, c := range last.Claims {
		got = append(got, c.SandboxID+" of pod "+string(c.PodUID)+" in "+c.BootID)
	}
	if diff := cmp.Diff(claimed, got); diff != "" || last.Generation != generation || last.UID != "all" || last.BootID != bootID {
		t.Errorf("response %+v, expected generation %d; claims (-want +got)\n%s", last, generation, diff)
	}
}

// list brings a complete list of the records of the node, and no query to all nodes.
func (b *bench) list(t *testing.T, own ...any) {
	t.Helper()
	if err := errors.Join(b.own.Replace(own, "100"), b.query()); err != nil {
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

func TestANodeThatNeverHadASandboxRespondsAfterSandboxCreationMax(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	b.asks(t, "s0")
	for range 11 {
		b.round(t.Context())
		b.responds(t, 0, 0)
		b.clock.Step(time.Minute - time.Second)
	}
	b.clock.Step(time.Minute)
	for range 5 {
		b.clock.Step(time.Second)
		b.round(t.Context())
	}
	b.responds(t, 1, 1)
}

func TestAClaimAndTheGenerationComeInOneWrite(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.round(t.Context())
	b.asks(t, "s0")
	b.round(t.Context())
	b.round(t.Context())
	b.responds(t, 1, 1, "s0 of pod web in boot")
	b.asks(t, "s0", "s1") // whether it has the other one is not known yet
	b.round(t.Context())
	b.responds(t, 1, 1, "s0 of pod web in boot")
}

func TestAClaimOfAnEarlierBootStandsUntilThisOneClaims(t *testing.T) {
	earlier := v1alpha1.AllNodesResponse{UID: "all", Generation: 1, BootID: "earlier", Claims: []v1alpha1.SandboxClaim{
		{SandboxID: "s0", BootID: "earlier", PodUID: "web", Reason: string(v1alpha1.ReasonSandboxOfThisNode)}}}
	for name, tc := range map[string]struct {
		listed []handshake.Sandbox
		want   string
	}{
		"it is listed":     {[]handshake.Sandbox{sandboxS0("web")}, "s0 of pod web in boot"},
		"it is not listed": {nil, "s0 of pod web in earlier"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.api.guarded.Status.AllNodes = &earlier
			b.lister.sandboxes = tc.listed
			b.asks(t, "s0")
			b.round(t.Context())
			b.clock.Step(time.Second)
			b.round(t.Context())
			b.responds(t, 1, 1, tc.want)
		})
	}
}

func TestAnEarlierResponseOfThisNodeAndBootStands(t *testing.T) {
	for name, tc := range map[string]struct {
		uid  types.UID
		boot string
		want int
	}{
		"of this boot: quiet":                        {"all", bootID, 0},
		"of an earlier boot: not before it is known": {"all", "earlier", 0},
		"to an object that was made anew":            {"before", bootID, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.api.guarded.Status.AllNodes = &v1alpha1.AllNodesResponse{UID: tc.uid, Generation: 1, BootID: tc.boot}
			b.asks(t, "s0")
			b.round(t.Context())
			b.round(t.Context())
			b.responds(t, tc.want, 1)
			for range 11 {
				b.clock.Step(time.Minute)
				b.round(t.Context())
			}
			if tc.boot == bootID && tc.uid == "all" {
				b.responds(t, 0, 1)
			} else {
				b.responds(t, 1, 1)
			}
		})
	}
}

// TestTheRecordKeepsWhatANodeClaimed: the agent was started anew between its claim and the mark that asks its node alone, and the sandbox is gone.
func TestTheRecordKeepsWhatANodeClaimed(t *testing.T) {
	b := newBench(t)
	record := marked("orphan-s0", 90, nodeUID, 1)
	record.Spec.Sandboxes = []v1alpha1.SandboxRecord{{ID: "s0", PodUID: "web", Node: &v1alpha1.NodeIdentity{UID: nodeUID, BootID: bootID}}}
	b.list(t, record)
	b.round(t.Context())
	if diff := cmp.Diff([]outcome{{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "web", 1}}, b.said("orphan-s0")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
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

func TestAQueryThatComesWhileTheRuntimeIsListedIsNotRespondedToWithIt(t *testing.T) {
	b := newBench(t)
	b.round(t.Context())
	b.asks(t, "s0")
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	before := b.api.all
	b.lister.during = func() {
		b.asks(t, "s0", "s1")
		b.api.all = before // the API server shows it a moment later
	}
	b.round(t.Context())
	b.responds(t, 1, 1, "s0 of pod web in boot")
}

// TestAResponseIsToTheQueriesThatStand: etcd was restored, and another query has the generation of the one that the watch brought before.
func TestAResponseIsToTheQueriesThatStand(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.asks(t, "s0")
	b.api.all.Spec.Queries[0].SandboxID = "s9"
	b.round(t.Context())
	b.responds(t, 0, 0)
}

func TestTheGuardedNodeIsReadEverLessOften(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.asks(t, "s0")
	b.round(t.Context())
	reads := func() int {
		before := b.api.guardedReads
		for range 120 {
			b.clock.Step(time.Minute)
			b.round(t.Context())
		}
		return b.api.guardedReads - before
	}
	if first := reads(); first > 12 {
		t.Errorf("%d reads in two hours", first)
	}
	if later := reads(); later != int(2*time.Hour/lastCheck) {
		t.Errorf("%d reads in the next two hours", later)
	}
}

// TestAResponseThatWasTakenAwayIsWrittenAgain: the object was deleted and made anew, or etcd was restored.
func TestAResponseThatWasTakenAwayIsWrittenAgain(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.asks(t, "s0")
	b.round(t.Context())
	b.api.guarded.Status.AllNodes = nil
	b.round(t.Context())
	b.responds(t, 1, 1, "s0 of pod web in boot")
	b.clock.Step(firstCheck)
	b.round(t.Context())
	b.responds(t, 2, 1, "s0 of pod web in boot")
}
