// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
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

// stubLister is a runtime with the sandboxes of the test and the agent's own.
type stubLister struct {
	clock     *clocktesting.FakeClock
	sandboxes []handshake.Sandbox
	alone     bool
	err       error
	during    func()
	queried   sandbox.Queried
}

func (s *stubLister) List(_ context.Context, queried sandbox.Queried) (*handshake.Listing, error) {
	s.queried = queried
	l := &handshake.Listing{Began: s.clock.Now(), Ended: s.clock.Now(), ReportsNamespaces: true, Runtime: "containerd 1"}
	if !s.alone {
		l.Sandboxes = append(l.Sandboxes, handshake.Sandbox{ID: "own", Pod: handshake.Pod{UID: podUID}, State: handshake.StateReady})
	}
	l.Sandboxes = append(l.Sandboxes, s.sandboxes...)
	if s.during != nil {
		s.during()
	}
	return l, s.err
}

// bench is an agent whose rounds and watch events the test makes.
type bench struct {
	*Agent
	t      *testing.T
	api    *stubAPI
	clock  *clocktesting.FakeClock
	lister *stubLister
	events *events.FakeRecorder
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, api: newStubAPI(), clock: newClock(), events: events.NewFakeRecorder(100)}
	b.lister = &stubLister{clock: b.clock}
	agent, err := New(Options{NodeName: nodeName, Client: b.api, Lister: b.lister, Machine: writeMachine(t, bootID, "machine"), Recorder: b.events,
		ListInterval: time.Second, Settings: handshake.Settings{SandboxCreationMax: 10 * time.Minute}, Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.Agent = agent
	b.own = watchedNode(nodeUID, b.clock, b.poke)
	b.query()
	b.queryAll()
	return b
}

// take delivers the event of the watch and makes a round.
func (b *bench) take() {
	b.t.Helper()
	b.bring()
	b.round(b.t.Context())
}

// bring delivers the GuardedNode to its watch.
func (b *bench) bring() {
	b.t.Helper()
	var objects []any
	if b.api.guarded != nil {
		objects = append(objects, b.api.guarded.DeepCopy())
	}
	if err := b.own.Replace(objects, ""); err != nil {
		b.t.Fatal(err)
	}
}

// query replaces the queries of the GuardedNode.
func (b *bench) query(queries ...v1alpha1.SandboxQuery) {
	b.t.Helper()
	b.api.guarded.Spec.Queries = queries
	b.api.touch()
	b.bring()
}

// queryAll delivers an AllNodesQuery with a query about each sandbox; epochs count from 1.
func (b *bench) queryAll(sandboxes ...string) {
	b.t.Helper()
	b.api.all = nil
	var objects []any
	if len(sandboxes) > 0 {
		b.api.all = &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AllNodesQueryName, UID: "all", Generation: int64(len(sandboxes))}}
		for i, id := range sandboxes {
			b.api.all.Spec.Queries = append(b.api.all.Spec.Queries, v1alpha1.OrphanQuery{SandboxID: id, Epoch: int64(i + 1)})
		}
		objects = append(objects, b.api.all.DeepCopy())
	}
	if err := b.all.Replace(objects, ""); err != nil {
		b.t.Fatal(err)
	}
}

// about is a query to this boot about sandbox s0 of a record.
func about(record string, epoch int64) v1alpha1.SandboxQuery {
	return v1alpha1.SandboxQuery{Record: record, SandboxID: "s0", Epoch: epoch, BootID: bootID, Purpose: v1alpha1.PurposeRelease, Time: metav1.NewTime(start)}
}

// with is a query with a change.
func with(q v1alpha1.SandboxQuery, change func(*v1alpha1.SandboxQuery)) v1alpha1.SandboxQuery {
	change(&q)
	return q
}

// outcome is a response without its time.
type outcome struct {
	Verdict v1alpha1.Verdict
	Reason  v1alpha1.Reason
	PodUID  types.UID
	Epoch   int64
}

// given writes a response about sandbox s0 of a record into the GuardedNode.
func (b *bench) given(record string, o outcome, boot string) {
	b.t.Helper()
	b.api.guarded.Status.Responses = append(b.api.guarded.Status.Responses, v1alpha1.SandboxResponse{Record: record, SandboxID: "s0", Epoch: o.Epoch, BootID: boot,
		Verdict: o.Verdict, Reason: string(o.Reason), PodUID: o.PodUID, Time: metav1.NewTime(start)})
	b.api.touch()
	b.bring()
}

// responses are those of the GuardedNode about a record.
func (b *bench) responses(record string) []outcome {
	var got []outcome
	for _, r := range b.api.guarded.Status.Responses {
		if r.Record == record {
			got = append(got, outcome{r.Verdict, v1alpha1.Reason(r.Reason), r.PodUID, r.Epoch})
		}
	}
	return got
}

// wants checks the responses about a record and the number of writes of the status.
func (b *bench) wants(record string, writes int, want ...outcome) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.responses(record)); diff != "" {
		b.t.Errorf("(-want +got)\n%s", diff)
	}
	if got := len(b.api.written); got != writes {
		b.t.Errorf("%d writes, expected %d", got, writes)
	}
}

// condition is the reason of the condition Responding, after "not: " where it is not true.
func (b *bench) condition() string {
	c := meta.FindStatusCondition(b.api.guarded.Status.Conditions, v1alpha1.RespondingCondition)
	switch {
	case c == nil:
		return ""
	case c.Status != metav1.ConditionTrue:
		return "not: " + c.Reason
	}
	return c.Reason
}

// claims checks the last response to the queries to all nodes, its generation and claims, and the number of writes.
func (b *bench) claims(writes int, generation int64, claimed ...string) {
	b.t.Helper()
	if got := len(b.api.written); got != writes {
		b.t.Fatalf("%d writes, expected %d", got, writes)
	}
	if writes == 0 {
		return
	}
	last := b.api.written[writes-1].AllNodes
	if last == nil {
		b.t.Fatal("there is no response to all nodes")
	}
	var got []string
	for _, c := range last.Claims {
		got = append(got, c.SandboxID+" of pod "+string(c.PodUID)+" in "+c.BootID)
	}
	if diff := cmp.Diff(claimed, got); diff != "" || last.Generation != generation || last.UID != "all" || last.BootID != bootID {
		b.t.Errorf("response %+v, expected generation %d; claims (-want +got)\n%s", last, generation, diff)
	}
}

// wantEvent checks the next event.
func (b *bench) wantEvent(reason v1alpha1.Reason) {
	b.t.Helper()
	select {
	case got := <-b.events.Events:
		if !strings.HasPrefix(got, "Warning "+string(reason)) {
			b.t.Errorf("event %q", got)
		}
	default:
		b.t.Errorf("there is no event %s", reason)
	}
}

func sandboxS0(uid types.UID) handshake.Sandbox {
	return handshake.Sandbox{ID: "s0", Pod: handshake.Pod{UID: uid, Namespace: "default", Name: "web-0"}, State: handshake.StateReady}
}
