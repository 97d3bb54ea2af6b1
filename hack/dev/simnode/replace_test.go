// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

func (f *Fleet) kinds() []string {
	var kinds []string
	for _, event := range f.history.List() {
		kinds = append(kinds, event.Event)
	}
	return kinds
}

// comparison is what a machine has in common with the one before it under its
// name, and whether it is on.
type comparison struct {
	Machine, System, Boot, Address, Disk, CNI bool // the same
	On, OldIsOn                               bool
}

func compare(before, after *machine) comparison {
	a, b := before.node, after.node
	return comparison{
		Machine: a.Machine.MachineID == b.Machine.MachineID, System: a.Machine.SystemUUID == b.Machine.SystemUUID,
		Boot: a.Machine.BootID == b.Machine.BootID, Address: a.InternalIP == b.InternalIP,
		Disk: before.runtime == after.runtime, CNI: before.networks == after.networks,
		On:      !after.isPoweredOff() && !after.gate.IsClosed() && !after.networks.IsCut() && !after.power.IsCut() && !after.uplink.IsCut(),
		OldIsOn: !before.isPoweredOff() || !before.gate.IsClosed(),
	}
}

func expectHistory(t *testing.T, f *Fleet, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.kinds()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestABootKeepsTheMachineAndItsDisk(t *testing.T) {
	f, c := newFleet(t)
	before := f.machine("node-a")
	id, _ := before.runtime.Create(runtime.PodRef{UID: "uid-1"})
	if err := c.Do(t.Context(), api.EventPowerOff, "node-a"); err != nil {
		t.Fatal(err)
	}
	if !before.power.IsCut() {
		t.Error("what runs there still reaches the API server")
	}
	if err := c.Do(t.Context(), api.EventStart, "node-a"); err != nil {
		t.Fatal(err)
	}
	after := f.machine("node-a")
	want := comparison{Machine: true, System: true, Address: true, Disk: true, CNI: true, On: true}
	if diff := cmp.Diff(want, compare(before, after)); diff != "" {
		t.Errorf("the machine and the one before (-want +got):\n%s", diff)
	}
	if after.runtime.Alive(id) {
		t.Error("a sandbox outlived the boot")
	}
	if fresh, _ := after.runtime.Create(runtime.PodRef{UID: "uid-1"}); !after.runtime.Alive(fresh) {
		t.Error("a new sandbox is dead")
	}
	expectHistory(t, f, api.EventCreate, api.EventPowerOff, api.EventEnd, api.EventStart, api.EventCreate)
	if list := f.sandboxes(); len(list) != 2 {
		t.Errorf("%d sandboxes, want each once: %+v", len(list), list)
	}
}

func TestACutOutlivesABoot(t *testing.T) {
	f, c := newFleet(t)
	for _, act := range []string{api.EventCutOff, api.EventCutCNI, api.EventPowerOff, api.EventStart} {
		if err := c.Do(t.Context(), act, "node-a"); err != nil {
			t.Fatal(err)
		}
	}
	if m := f.machine("node-a"); !m.uplink.IsCut() || !m.networks.IsCut() || m.power.IsCut() {
		t.Error("the network came back with the machine, or the power did not")
	}
}

func TestAMachineThatWasNotPoweredOffRunsBesideItsReplacement(t *testing.T) {
	f, c := newFleet(t)
	before := f.machine("node-a")
	id, _ := before.runtime.Create(runtime.PodRef{UID: "uid-1"})
	if err := c.Do(t.Context(), api.ReplaceUnreachable, "node-a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(comparison{On: true, OldIsOn: true}, compare(before, f.machine("node-a"))); diff != "" {
		t.Errorf("the machine and the one before (-want +got):\n%s", diff)
	}
	if !before.uplink.IsCut() {
		t.Error("the old machine still reaches the API server")
	}
	alive := func(s api.Sandbox) bool { return s.ID == id && s.Alive }
	if !slices.ContainsFunc(f.sandboxes(), alive) {
		t.Errorf("its sandbox is dead, or forgotten: %+v", f.sandboxes())
	}
	if _, err := f.client.CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the old Node object: %v", err)
	}
	expectHistory(t, f, api.EventCreate, api.EventCutOff, api.EventReplace)
}

func TestReplaceIsAnotherMachineUnderTheName(t *testing.T) {
	for name, deleteNode := range map[string]bool{"that finds the old Node object": false, "whose predecessor's Node object is deleted": true} {
		t.Run(name, func(t *testing.T) {
			f, c := newFleet(t)
			before := f.machine("node-a")
			id, _ := before.runtime.Create(runtime.PodRef{UID: "uid-1"})
			replace := api.EventReplace
			if deleteNode {
				replace = api.ReplaceAnew
			}
			if err := c.Do(t.Context(), replace, "node-a"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(comparison{On: true}, compare(before, f.machine("node-a"))); diff != "" {
				t.Errorf("the machine and the one before (-want +got):\n%s", diff)
			}
			dead := func(s api.Sandbox) bool { return s.ID == id && !s.Alive }
			if !slices.ContainsFunc(f.sandboxes(), dead) {
				t.Errorf("the old machine's sandbox is alive, or forgotten: %+v", f.sandboxes())
			}
			expectHistory(t, f, api.EventCreate, api.EventPowerOff, api.EventEnd, api.EventReplace)
			_, err := f.client.CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{})
			if apierrors.IsNotFound(err) != deleteNode {
				t.Errorf("the old Node object: %v", err)
			}
		})
	}
}

func TestAMachineIsReplacedAgainAndAgain(t *testing.T) {
	f, c := newFleet(t)
	addresses := map[string]bool{f.machine("node-a").node.InternalIP: true, f.machine("node-b").node.InternalIP: true}
	for range 3 {
		for _, node := range []string{"node-a", "node-b"} {
			if err := c.Do(t.Context(), api.ReplaceAnew, node); err != nil {
				t.Fatal(err)
			}
			addresses[f.machine(node).node.InternalIP] = true
		}
	}
	if len(addresses) != 8 {
		t.Errorf("eight machines have the addresses %v", addresses)
	}
	if err := c.Do(t.Context(), api.EventReplace, "node-x"); err == nil || !strings.Contains(err.Error(), `no simulated node "node-x"`) {
		t.Errorf("replacing an unknown node: error %v", err)
	}
}

func TestCNSNodesAreSimNodeNodes(t *testing.T) {
	f, _ := newFleet(t)
	o := f.options
	o.CNSNodes = []string{"node-x"}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "node-x") {
		t.Errorf("error %v", err)
	}
	o.CNSNodes = []string{"node-b"}
	second, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := second.machine("node-a"), second.machine("node-b"); a.cns != nil || a.networks.Ready() != nil || b.cns == nil || b.networks.Ready() == nil {
		t.Error("the wrong node needs a CNS")
	}
}

func TestInitContainersRunTheManager(t *testing.T) {
	program := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\"\necho waits >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, _ := newFleet(t)
	m := f.machine("node-a")
	m.options.Manager = program
	container := corev1.Container{Name: "wait", Command: []string{"/manager", "wait"}, Args: []string{"--node=$(NODE_NAME)"}}
	if err := m.runManager(t.Context(), container, "/kubeconfig"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v, want that of the command", err)
	}
	var said []string
	for _, e := range f.history.List() {
		said = append(said, e.Event+" "+e.Message)
	}
	if diff := cmp.Diff([]string{"init wait: wait --node=node-a --kubeconfig /kubeconfig", "init wait: waits"}, said); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	for name, c := range map[string]corev1.Container{
		"another command":                 {Command: []string{"sh"}},
		"the image's own command":         {},
		"the manager, which is not there": {Command: []string{"manager"}},
	} {
		if name == "the manager, which is not there" {
			m.options.Manager = ""
		}
		if err := m.runManager(t.Context(), c, "/kubeconfig"); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
