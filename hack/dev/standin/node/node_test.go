// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func options() Options {
	return Options{Name: "node-a", Machine: NewMachine("node-a"), InternalIP: "203.0.113.10", Heartbeat: time.Second}
}

func TestMachines(t *testing.T) {
	a, rebooted, b := NewMachine("node-a"), NewMachine("node-a"), NewMachine("node-b")
	if a.MachineID != rebooted.MachineID || a.SystemUUID != rebooted.SystemUUID || a.BootID == rebooted.BootID {
		t.Errorf("the same machine, booted again: %+v, %+v", a, rebooted)
	}
	if a.MachineID == b.MachineID || a.SystemUUID == b.SystemUUID {
		t.Errorf("two machines: %+v, %+v", a, b)
	}
}

func TestOtherMachines(t *testing.T) {
	first, other := NewMachine("node-a"), NewHardware()
	if other.MachineID == first.MachineID || other.SystemUUID == first.SystemUUID || other.BootID == first.BootID {
		t.Errorf("another machine: %+v, %+v", first, other)
	}
	if again := NewHardware(); again == other {
		t.Errorf("two machines are one: %+v", again)
	}
	rebooted := first.Rebooted()
	if rebooted.BootID == first.BootID {
		t.Error("a reboot keeps the boot ID")
	}
	rebooted.BootID = first.BootID
	if rebooted != first {
		t.Errorf("the same machine after a reboot: %+v, %+v", first, rebooted)
	}
}

// readiness is the node's, as the API server has it.
func readiness(t *testing.T, client *fake.Clientset) corev1.ConditionStatus {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func TestANodeIsReadyAsSoonAsItsNetworkIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset()
		var ready atomic.Bool
		o := options()
		o.Heartbeat = time.Minute
		o.NetworkReady = func() error {
			if ready.Load() {
				return nil
			}
			return errors.New("no CNI")
		}
		if err := Register(ctx, client, o); err != nil {
			t.Fatal(err)
		}
		go Heartbeat(ctx, client, o, slog.New(slog.DiscardHandler))
		synctest.Wait()
		if got := readiness(t, client); got != corev1.ConditionFalse {
			t.Errorf("without a network the node's Ready is %q", got)
		}
		ready.Store(true)
		<-time.After(time.Second)
		synctest.Wait()
		if got := readiness(t, client); got != corev1.ConditionTrue {
			t.Errorf("a second after its network the node's Ready is %q", got)
		}
		cancel()
		synctest.Wait()
	})
}

func TestStatusKeepsForeignConditionsAndTransitions(t *testing.T) {
	before, now := metav1.Unix(100, 0), metav1.Unix(200, 0)
	old := corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: "example.com/foreign", Status: corev1.ConditionTrue},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: before},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown, LastTransitionTime: before},
	}}
	transitions := map[corev1.NodeConditionType]metav1.Time{}
	for _, c := range status(old, options(), now).Conditions {
		transitions[c.Type] = c.LastTransitionTime
	}
	want := map[corev1.NodeConditionType]metav1.Time{
		"example.com/foreign": {}, corev1.NodeReady: before, corev1.NodeDiskPressure: now,
		corev1.NodeMemoryPressure: now, corev1.NodePIDPressure: now,
	}
	if diff := cmp.Diff(want, transitions); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}

func TestRegisterTakesOverANodeOfTheName(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "uid-1"}})
	if err := Register(t.Context(), client, options()); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != "uid-1" || got.Status.NodeInfo.MachineID != options().Machine.MachineID {
		t.Errorf("node %s with machine %q", got.UID, got.Status.NodeInfo.MachineID)
	}
}

func TestHeartbeatRenewsOneLeaseOwnedByTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "uid-1"}})
		go Heartbeat(ctx, client, options(), slog.New(slog.DiscardHandler))
		synctest.Wait()
		leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		first, err := leases.Get(ctx, "node-a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(first.OwnerReferences) != 1 || first.OwnerReferences[0].UID != "uid-1" {
			t.Errorf("owners of the Lease: %v", first.OwnerReferences)
		}
		<-time.After(time.Minute) // of the bubble's own clock
		synctest.Wait()
		renewed, err := leases.Get(ctx, "node-a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !renewed.Spec.RenewTime.After(first.Spec.RenewTime.Time) {
			t.Errorf("the Lease was not renewed after %s", first.Spec.RenewTime)
		}
		cancel()
		synctest.Wait()
	})
}

func TestGateHoldsUpUntilItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &Gate{}
		if err := gate.Wait(t.Context()); err != nil {
			t.Fatalf("an open gate: %v", err)
		}
		gate.Close()
		gate.Close()
		passed := make(chan error, 1)
		go func() { passed <- gate.Wait(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-passed:
			t.Fatalf("passed a closed gate: %v", err)
		default:
		}
		if !gate.IsClosed() {
			t.Error("a closed gate says that it is open")
		}
		gate.Open()
		if err := <-passed; err != nil {
			t.Error(err)
		}
	})
}

func TestGateLetsGoWhoeverGivesUp(t *testing.T) {
	gate := &Gate{}
	gate.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gate.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
