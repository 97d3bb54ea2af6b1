// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

func TestRecordsOutliveAReboot(t *testing.T) {
	f := newFixture()
	id, _ := f.Create(web)
	f.Ready(id)
	f.PowerOff()
	f.Remove(id) // a step of the boot that has just died
	if listed, found := f.Listed("uid-1"); !found || listed != id {
		t.Errorf("after power-off the runtime has %q (%t), want %s", listed, found, id)
	}
	if dead, _ := f.Create(web); f.Alive(dead) {
		t.Error("a machine that is off made a live sandbox")
	}
	f.PowerOn()
	if f.Alive(id) {
		t.Error("a sandbox came back with the power")
	}
	fresh, _ := f.Create(web)
	if !f.Alive(fresh) {
		t.Error("a machine that was powered on makes dead sandboxes")
	}
	if listed, _ := f.Listed("uid-1"); listed != fresh {
		t.Errorf("the latest sandbox is %s, want %s", listed, fresh)
	}
	f.Remove(fresh)
	if listed, _ := f.Listed("uid-1"); listed == fresh {
		t.Error("a sandbox that was removed is listed")
	}
	want := []string{api.EventCreate, api.EventReady, api.EventEnd, api.EventCreate, api.EventEnd, api.EventCreate, api.EventRemove}
	if diff := cmp.Diff(want, f.events()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestAnotherPodsSandboxIsNotListed(t *testing.T) {
	f := newFixture()
	f.Create(runtime.PodRef{UID: "uid-2"})
	if id, found := f.Listed("uid-1"); found {
		t.Errorf("found %s of another pod", id)
	}
}

func TestPodsAreThoseOfWhichThereIsARecord(t *testing.T) {
	f := newFixture()
	first, _ := f.Create(web)
	f.Create(web)
	other, _ := f.Create(runtime.PodRef{UID: "uid-2", Namespace: "ns", Name: "other"})
	f.Stop(first)
	f.Remove(first)
	f.Stop(other)
	f.Remove(other)
	if diff := cmp.Diff([]runtime.PodRef{web}, f.Pods()); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}
