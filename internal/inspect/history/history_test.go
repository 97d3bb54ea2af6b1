// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/timeline"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
)

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func after(minutes int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(minutes) * time.Minute))
}

func known() *who.Facts {
	bound, deleted := after(1), after(6)
	return &who.Facts{
		IP:   netip.MustParseAddr("10.0.0.1"),
		Pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: "u", CreationTimestamp: after(0), DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: new(int64(60))}}},
		GuardedNodes: []v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "n",
			Machines: []v1alpha1.GuardedMachine{{MachineID: "m", Gone: &v1alpha1.MachineGone{Since: after(4)}}},
			Queries:  []v1alpha1.SandboxQuery{{Record: "u", SandboxID: "s", BootID: "b", Time: after(7), Epoch: 1}, {Record: "u", SandboxID: "t", BootID: "b", Time: after(7), Epoch: 1}}},
			Status: v1alpha1.GuardedNodeStatus{Responses: []v1alpha1.SandboxResponse{
				{Record: "u", SandboxID: "s", BootID: "b", Time: after(8), Verdict: v1alpha1.VerdictDoNotRelease, Reason: "SandboxReady", Epoch: 1}}}}},
		Records: []v1alpha1.IPAllocation{{ObjectMeta: metav1.ObjectMeta{Name: "u"}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: "web", NodeName: "n", ScheduledTime: &bound,
			Sandboxes: []v1alpha1.SandboxRecord{{ID: "s", Node: &v1alpha1.NodeIdentity{UID: "n1", MachineID: "m"}}, {ID: "t", Node: &v1alpha1.NodeIdentity{UID: "n2", MachineID: "alive"}}},
			Addresses: []v1alpha1.AddressRecord{{IP: "10.0.0.1", Pool: "p", SandboxID: "s", ObservedTime: after(2)}, {IP: "10.0.0.2", Pool: "p", SandboxID: "t", ObservedTime: after(2)}}},
			Status: v1alpha1.IPAllocationStatus{Repairs: []v1alpha1.Repair{{Time: after(3), Kind: "ReservationMissing", Address: "10.0.0.1", Result: v1alpha1.RepairRepaired}, {Time: after(3), Kind: "X", Address: "10.0.0.2"}},
				Conditions: []metav1.Condition{{Reason: "SandboxRunning", Message: "held", LastTransitionTime: after(9)}}}}},
		Events:  []inspect.Event{{First: start.Add(-time.Hour), Last: start.Add(-time.Hour), Count: 1, Reason: "KubeletFinished", Note: "released 10.0.0.1", Kind: "Pod", Namespace: "apps", Name: "old"}},
		Related: []inspect.Event{{First: start.Add(9 * time.Minute), Last: start.Add(time.Hour), Count: 3, Reason: "SandboxRunning", Note: "<script>alert(1)</script>", Kind: "Pod", Namespace: "apps", Name: "web"}},
	}
}

func TestHistory(t *testing.T) {
	h := Of(known())
	var got []string
	for _, s := range h.Steps {
		got = append(got, s.Time.Sub(start).String()+" "+s.Who+" "+s.What)
	}
	want := []string{"-1h0m0s apps/old KubeletFinished", "0s apps/web Created", "1m0s apps/web Bound", "2m0s apps/web Recorded", "3m0s apps/web ReservationMissing",
		"4m0s apps/web NodeGone", "5m0s apps/web DeletionRequested", "7m0s apps/web Queried", "8m0s apps/web Responded", "9m0s apps/web SandboxRunning", "9m0s apps/web SandboxRunning"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if last := h.Steps[len(h.Steps)-1].Detail; !strings.Contains(last, "3 times, last at 2026-01-02T13:00:00Z") {
		t.Errorf("a series does not say how long it went on: %q", last)
	}
}

// TestRepeatedStepsAreOne: the manager writes why it waits into two conditions and an event, and rounds the time of its query up.
func TestRepeatedStepsAreOne(t *testing.T) {
	f := known()
	f.Events = nil
	f.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.IPsReleasedCondition, Reason: "SandboxRunning", Message: "held", LastTransitionTime: after(9)}}
	f.Related = []inspect.Event{{First: after(9).Add(300 * time.Millisecond), Last: after(9).Add(300 * time.Millisecond), Count: 1, Reason: "SandboxRunning", Note: "held",
		Kind: "Pod", Namespace: "apps", Name: "web"}}
	f.GuardedNodes[0].Spec.Queries[0].Time = metav1.NewTime(after(9).Add(time.Second))
	f.GuardedNodes[0].Status.Responses[0].Time = after(9)
	var got []string
	for _, s := range Of(f).Steps[5:] {
		got = append(got, s.Time.Sub(start).Truncate(time.Second).String()+" "+s.What)
	}
	if diff := cmp.Diff([]string{"5m0s DeletionRequested", "9m0s SandboxRunning", "9m0s Queried", "9m0s Responded"}, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestThePageNeedsNothingElseAndBelievesNoText(t *testing.T) {
	var page bytes.Buffer
	if err := Of(known()).WritePage(&page, start.Add(10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"<title>10.0.0.1: history</title>", "DeletionRequested", "&lt;script&gt;alert(1)&lt;/script&gt;", "As known to the cluster at <time>2026-01-02T12:10:00Z</time>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if outside := regexp.MustCompile(`(?i)<script|<link|<img|<iframe|src=|href=|url\(|@import|https?:`).FindString(text); outside != "" {
		t.Errorf("the page needs something else: %q", outside)
	}
}

// TestFigure: each pod has a lane, for as long as something is written down about it, or until now.
func TestFigure(t *testing.T) {
	now := start.Add(10 * time.Minute)
	f := known()
	f.Pods = append(f.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "thief", UID: "u2", CreationTimestamp: after(8)}})
	figure := Of(f).figure(now)
	var lanes []string
	for _, h := range figure.Holds {
		lanes = append(lanes, fmt.Sprintf("%s %s to %s, now %t", h.Pod, h.From.Sub(start), h.To.Sub(start), h.Open))
	}
	want := []string{"apps/old -1h0m0s to -1h0m0s, now false", "apps/web 2m0s to 10m0s, now true", "apps/thief 8m0s to 10m0s, now true"}
	if diff := cmp.Diff(want, lanes); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	if len(figure.Overlaps) != 1 || !figure.Overlaps[0].From.Equal(after(8).Time) {
		t.Errorf("two have the address, from when both have it: %+v", figure.Overlaps)
	}
	ticks := timeline.Measure(figure).Ticks
	if got := ticks[len(ticks)-1].Label; got != "12:10" {
		t.Errorf("the last tick is %q", got)
	}
}

func TestAnAddressOfWhichNothingIsKnown(t *testing.T) {
	var page bytes.Buffer
	h := Of(&who.Facts{IP: netip.MustParseAddr("10.0.0.1")})
	if err := h.WritePage(&page, start); err != nil || !strings.Contains(page.String(), "Nothing is known.") || h.Attention() {
		t.Errorf("error %v, page:\n%s", err, &page)
	}
}
