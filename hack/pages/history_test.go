// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/history"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var update = flag.Bool("update", false, "write testdata/history.html, at which make pages-check looks in a browser")

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func after(minutes int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(minutes) * time.Minute))
}

const (
	oldUID, newUID         = "0f0f3e52-8baa-44c6-b47e-93af8bca8142", "fa42bdb7-4250-48d7-bfc9-8206181445e8"
	oldSandbox, newSandbox = "535522e265afa9b8309cfa7fd88c6bc6407ac7d58ff1f198ba24a73ae6cc2311", "4cdb3964918d55aa444c6e7890de5eee3d1f705ccd2c5f4764a4532a17648cb0"
)

// conflict are the facts about an address that a held pod and its successor have: everything that the page can draw.
func conflict() *who.Facts {
	ip := netip.MustParseAddr("192.0.2.2")
	held := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: oldUID}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: "web-0", NodeName: "node-b",
		Addresses: []v1alpha1.AddressRecord{{IP: ip.String(), Pool: "kube-system/192.0.2.0-24", Interface: "net1", SandboxID: oldSandbox, ObservedTime: after(0)}}},
		Status: v1alpha1.IPAllocationStatus{State: v1alpha1.StateConflict, Conditions: []metav1.Condition{{Type: v1alpha1.ReleasedCondition, Reason: "NodeUnreachable",
			Message: "node node-b is not Ready and has no out-of-service taint", LastTransitionTime: after(21)}}}}
	return &who.Facts{
		IP: ip, Records: []v1alpha1.IPAllocation{*held},
		Pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-0", UID: newUID, CreationTimestamp: after(30)}, Spec: corev1.PodSpec{NodeName: "node-a"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning}}},
		Entries: []ipam.Entry{{Key: ipam.Key{Pool: "kube-system/192.0.2.0-24", IP: ip, SandboxID: newSandbox, PodRef: "apps/web-0"}}},
		Events: []inspect.Event{{First: start.Add(20 * time.Minute), Last: start.Add(20 * time.Minute), Count: 1, Reason: "SandboxRunning",
			Note: "the last report of the agent was that the sandbox is not gone", Kind: "IPAllocation", Name: oldUID, UID: oldUID}},
	}
}

// TestTheHistoryIsAsItWasLookedAt in a browser, by make pages-check.
func TestTheHistoryIsAsItWasLookedAt(t *testing.T) {
	const file = "testdata/history.html"
	var page bytes.Buffer
	if err := history.Of(conflict()).WritePage(&page, start.Add(40*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), page.String()); diff != "" {
		t.Errorf("%s (-want +got); go test -update accepts it, and make pages-check looks at it:\n%s", file, diff)
	}
}
