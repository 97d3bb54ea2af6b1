// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

var (
	web  = runtime.PodRef{UID: "uid-1", Namespace: "ns", Name: "web-0"}
	net1 = api.Address{Interface: "net1", IP: "10.0.0.1", Network: "ns/wb"}
)

type fixture struct {
	*runtime.Runtime
	history *runtime.History
}

func newFixture() *fixture {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	f := &fixture{history: runtime.NewHistory(clock)}
	f.Runtime = runtime.New("node-a", clock, f.history)
	return f
}

func (f *fixture) events() []string {
	var kinds []string
	for _, e := range f.history.List() {
		kinds = append(kinds, e.Event)
	}
	return kinds
}

func TestLifeOfASandbox(t *testing.T) {
	f := newFixture()
	id, _ := f.Create(web)
	f.Attach(id, net1)
	want := api.Sandbox{
		Node: "node-a", PodUID: "uid-1", PodNamespace: "ns", PodName: "web-0", State: api.StateNotReady, Alive: true,
		Addresses: []api.Address{net1},
	}
	ignore := cmpopts.IgnoreFields(api.Sandbox{}, "ID", "CreatedAt", "EndedAt")
	check := func(what string) {
		t.Helper()
		if diff := cmp.Diff([]api.Sandbox{want}, f.List(), ignore); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("while CNI ADD runs")
	if !f.Ready(id) {
		t.Fatal("a live sandbox did not become ready")
	}
	want.State = api.StateReady
	check("once it is ready")
	f.Stop(id)
	want.State, want.Alive = api.StateNotReady, false
	check("once its process ended")
	f.CloseNetNS(id)
	f.Remove(id)
	check("once it is removed")
	if diff := cmp.Diff([]string{api.EventCreate, api.EventAdd, api.EventReady, api.EventEnd, api.EventRemove}, f.events()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestSandboxIDsAndAttempts(t *testing.T) {
	f := newFixture()
	first, attempt0 := f.Create(web)
	second, attempt1 := f.Create(web)
	if len(first) != 64 || first == second {
		t.Errorf("IDs %q and %q: expected two of 64 digits", first, second)
	}
	if attempt0 != 0 || attempt1 != 1 {
		t.Errorf("attempts %d and %d", attempt0, attempt1)
	}
}

func TestPowerOffEndsEverythingAndLetsNothingBegin(t *testing.T) {
	f := newFixture()
	id, _ := f.Create(web)
	f.PowerOff()
	f.Attach(id, net1)
	late, _ := f.Create(web)
	for _, s := range f.List() {
		if s.Alive || s.EndedAt == nil || len(s.Addresses) != 0 {
			t.Errorf("sandbox on a dead machine: %+v", s)
		}
	}
	if f.Ready(late) {
		t.Error("a sandbox became ready on a dead machine")
	}
}
