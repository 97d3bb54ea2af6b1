// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

// sliceUses returns for each node what stands in its slice; it hangs for "hangs" and fails for "unknown".
type sliceUses struct {
	*whereabouts.Backend
	entries map[string]int
}

func slicesInUse(entries map[string]int) sliceUses {
	return sliceUses{whereabouts.New(whereabouts.Options{}), entries}
}

func (sliceUses) Guards(namespace string) bool { return namespace == "kube-system" }

func (u sliceUses) SliceUse(ctx context.Context, _ *ipam.SlicePool, slice ipam.Slice) (ipam.SliceUse, error) {
	switch slice.Node {
	case "unknown":
		return ipam.SliceUse{}, errors.New("no response")
	case "hangs":
		<-ctx.Done()
		return ipam.SliceUse{}, ctx.Err()
	}
	return ipam.SliceUse{Pool: "kube-system/pool-" + slice.Node, Entries: u.entries[slice.Node]}, nil
}

// sliceGuard looks after nodes a and b, whose slices are in use, and others, whose slices are not.
func sliceGuard(t *testing.T) (*NodeSliceGuard, <-chan string) {
	t.Helper()
	recorder := events.NewFakeRecorder(100)
	k, err := newNodeSliceGuard(recorder, NodeSliceOptions{Slices: slicesInUse(map[string]int{"a": 1, "b": 7}), ManagerUser: managerUser,
		Timeout: 50 * time.Millisecond, Clock: testingclock.NewFakePassiveClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	return k, recorder.Events
}

// slicePool has a slice for each node: 10.0.0.0/26, 10.0.0.64/26 and so on.
func slicePool(t *testing.T, nodes ...string) runtime.RawExtension {
	t.Helper()
	type allocation struct {
		NodeName   string `json:"nodeName"`
		SliceRange string `json:"sliceRange"`
	}
	var allocations []allocation
	for i, node := range nodes {
		allocations = append(allocations, allocation{node, []string{"10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"}[i]})
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"namespace": "kube-system", "name": "net", "uid": "u"},
		"spec":     map[string]string{"range": "10.0.0.0/24", "sliceSize": "/26"}, "status": map[string]any{"allocations": allocations}})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: raw}
}

func sliceWrite(t *testing.T, before, after []string) admission.Request {
	t.Helper()
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Update, Namespace: "kube-system", Name: "net",
		OldObject: slicePool(t, before...), Object: slicePool(t, after...),
	}}
}

// TestADeletionWaitsUntilNoSliceIsInUse: a definition of the same name in another namespace has whereabouts delete the object.
func TestADeletionWaitsUntilNoSliceIsInUse(t *testing.T) {
	ending := func(t *testing.T, r *admission.Request) { // an update that deletes
		t.Helper()
		r.Operation, r.Object = admissionv1.Update, runtime.RawExtension{Raw: []byte(`{"metadata":{"namespace":"kube-system","name":"net","deletionTimestamp":"2026-01-02T03:04:05Z"}}`)}
	}
	for name, tc := range map[string]struct {
		nodes   []string
		change  func(*testing.T, *admission.Request)
		refused bool
		// contains is in the refusal and in the event.
		contains []string
	}{
		"one slice is in use":               {nodes: []string{"", "e", "b"}, refused: true, contains: []string{"slice 10.0.0.128/26 of node b: IPPool kube-system/pool-b still holds 7"}},
		"whether one is in use is unknown":  {nodes: []string{"unknown"}, refused: true, contains: []string{"could not be read (no response)"}},
		"the response is late":              {nodes: []string{"hangs"}, refused: true, contains: []string{"could not be read"}},
		"an update deletes it":              {nodes: []string{"a"}, change: ending, refused: true, contains: []string{"of node a"}},
		"each slice is empty, or no node's": {nodes: []string{"e", "", "f"}},
		"it is of another namespace":        {nodes: []string{"a"}, change: func(_ *testing.T, r *admission.Request) { r.Namespace = "default" }},
		"the manager deletes it":            {nodes: []string{"a"}, change: func(_ *testing.T, r *admission.Request) { r.UserInfo.Username = managerUser }},
	} {
		t.Run(name, func(t *testing.T) {
			k, recorded := sliceGuard(t)
			req := sliceWrite(t, tc.nodes, nil)
			req.Operation, req.Object = admissionv1.Delete, runtime.RawExtension{}
			if tc.change != nil {
				tc.change(t, &req)
			}
			response := k.Handle(t.Context(), req)
			var said []string
			if !response.Allowed {
				said = append(said, response.Result.Message)
			}
			if response.Allowed == tc.refused || (tc.refused && response.Result.Code != http.StatusForbidden) {
				t.Errorf("allowed: %t (%v), want refused: %t", response.Allowed, response.Result, tc.refused)
			}
			checkMessages(t, tc.contains, said)
			checkMessages(t, tc.contains, drain(recorded))
		})
	}
}

func TestASliceInUseStaysWithItsNode(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after []string
		change        func(*admission.Request)
		patched       []string
		contains      []string
	}{
		"it is cleared": {
			before: []string{"a", "", ""}, after: []string{"", "", ""},
			patched: []string{"/status/allocations/0/nodeName=a"}, contains: []string{"stays with node a: IPPool kube-system/pool-a still holds 1"},
		},
		"it is given away, beside another assignment": {
			before: []string{"a", "", ""}, after: []string{"c", "d", ""},
			patched: []string{"/status/allocations/0/nodeName=a"}, contains: []string{"node c was to get it"},
		},
		"several are taken, of which one is empty": {
			before: []string{"b", "e", "a"}, after: []string{"", "", ""},
			patched: []string{"/status/allocations/0/nodeName=b", "/status/allocations/2/nodeName=a"}, contains: []string{"node b", "node a"},
		},
		"unknown": {
			before: []string{"unknown", "", ""}, after: []string{"", "", ""},
			patched: []string{"/status/allocations/0/nodeName=unknown"}, contains: []string{"could not be read (no response)"},
		},
		"the response is late": {
			before: []string{"hangs", "a", ""}, after: []string{"", "", ""},
			patched: []string{"/status/allocations/0/nodeName=hangs", "/status/allocations/1/nodeName=a"}, contains: []string{"could not be read", "node a"},
		},
		"it is empty":                {before: []string{"e", "", ""}, after: []string{"", "", ""}},
		"a free one is given away":   {before: []string{"a", "", ""}, after: []string{"a", "c", ""}},
		"the manager clears it":      {before: []string{"a"}, after: []string{""}, change: func(r *admission.Request) { r.UserInfo = authenticationv1.UserInfo{Username: managerUser} }},
		"it is of another namespace": {before: []string{"a"}, after: []string{""}, change: func(r *admission.Request) { r.Namespace = "default" }},
	} {
		t.Run(name, func(t *testing.T) {
			k, recorded := sliceGuard(t)
			req := sliceWrite(t, tc.before, tc.after)
			if tc.change != nil {
				tc.change(&req)
			}
			response := k.Handle(t.Context(), req)
			if !response.Allowed {
				t.Fatalf("refused: %v", response.Result)
			}
			var patched []string
			for _, p := range response.Patches {
				patched = append(patched, p.Path+"="+p.Value.(string))
			}
			if diff := cmp.Diff(tc.patched, patched); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			checkMessages(t, tc.contains, response.Warnings)
			checkMessages(t, tc.contains, drain(recorded))
		})
	}
}

func checkMessages(t *testing.T, want, got []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func drain(events <-chan string) []string {
	var all []string
	for {
		select {
		case e := <-events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func TestEventsOfSlicesAreFewAndNoneOfADryRun(t *testing.T) {
	k, recorded := sliceGuard(t)
	req := sliceWrite(t, []string{"a", "b"}, []string{"", "b"})
	req.DryRun = new(true)
	if response := k.Handle(t.Context(), req); len(response.Patches) != 1 || len(response.Warnings) != 1 {
		t.Errorf("a dry run gets another response: %v", response)
	}
	if all := drain(recorded); all != nil {
		t.Errorf("a dry run wrote %q", all)
	}
	for range 3 {
		k.Handle(t.Context(), sliceWrite(t, []string{"a", "b"}, []string{"", "b"}))
	}
	k.Handle(t.Context(), sliceWrite(t, []string{"a", "b"}, []string{"a", ""}))
	checkMessages(t, []string{"node a", "node b"}, drain(recorded))
}

func TestAWriteOfSlicesThatCannotBeReadIsAFailedCall(t *testing.T) {
	for name, change := range map[string]func(*admission.Request){
		"before": func(r *admission.Request) { r.OldObject.Raw = []byte(`{"spec":[]}`) },
		"after":  func(r *admission.Request) { r.Object.Raw = []byte(`{"spec":[]}`) },
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := sliceGuard(t)
			req := sliceWrite(t, []string{"a"}, []string{""})
			change(&req)
			if response := k.Handle(t.Context(), req); response.Result == nil || response.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("got %v", response)
			}
		})
	}
}

func TestTheSliceWebhookNeedsItsParts(t *testing.T) {
	for name, o := range map[string]NodeSliceOptions{
		"a backend":           {ManagerUser: managerUser},
		"the manager's name":  {Slices: slicesInUse(nil)},
		"anything whatsoever": {},
	} {
		if _, err := newNodeSliceGuard(nil, o); err == nil {
			t.Errorf("it does without %s", name)
		}
	}
	k, err := newNodeSliceGuard(nil, NodeSliceOptions{Slices: slicesInUse(nil), ManagerUser: managerUser})
	if err != nil || k.options.Timeout != defaultSliceTimeout || k.options.Clock == nil {
		t.Errorf("guard %+v, error %v", k, err)
	}
}
