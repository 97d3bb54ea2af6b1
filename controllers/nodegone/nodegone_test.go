// SPDX-License-Identifier: Apache-2.0

package nodegone

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestAKubeletThatReportsOnAnotherPodIsAlive(t *testing.T) {
	before := &v1alpha1.NodeGone{NodeUIDs: []types.UID{"node-1"}, KubeletWriteTime: &metav1.Time{Time: now}}
	for name, c := range map[string]struct {
		wrote time.Time
		alive bool
	}{
		"a later write":  {now.Add(time.Second), true},
		"the same write": {now, false},
		"the pod with the last write is gone now": {now.Add(-time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := signSince(before, signs{kubelet: &metav1.Time{Time: c.wrote}}); (got != "") != c.alive {
				t.Errorf("signSince = %q, alive wanted: %t", got, c.alive)
			}
		})
	}
}

func TestSignSince(t *testing.T) {
	at := func(s int) *metav1.MicroTime {
		return &metav1.MicroTime{Time: now.Add(time.Duration(s) * time.Second)}
	}
	second := func(s int) *metav1.Time { return &metav1.Time{Time: now.Add(time.Duration(s) * time.Second)} }
	cases := map[string]struct {
		before *v1alpha1.NodeGone
		seen   signs
		alive  bool
	}{
		"what was there when the delay began is no sign":     {&v1alpha1.NodeGone{LeaseRenewTime: at(0), KubeletWriteTime: second(0)}, signs{lease: at(0), kubelet: second(0)}, false},
		"nothing before and nothing now":                     {&v1alpha1.NodeGone{}, signs{}, false},
		"a Lease that went with its Node is no sign":         {&v1alpha1.NodeGone{LeaseRenewTime: at(0)}, signs{}, false},
		"a Lease that appears is one":                        {&v1alpha1.NodeGone{}, signs{lease: at(-100)}, true},
		"a Lease that was renewed is one, if by microsecond": {&v1alpha1.NodeGone{LeaseRenewTime: at(0)}, signs{lease: &metav1.MicroTime{Time: at(0).Add(time.Microsecond)}}, true},
		"a write of the pod's status is one":                 {&v1alpha1.NodeGone{KubeletWriteTime: second(0)}, signs{kubelet: second(1)}, true},
		"a first write of the pod's status is one":           {&v1alpha1.NodeGone{}, signs{kubelet: second(-5)}, true},
		"the first look finds none in what it finds":         {nil, signs{lease: at(0), kubelet: second(0)}, false},
		"the first look finds the machine elsewhere":         {nil, signs{machine: "other"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := signSince(c.before, c.seen); (got != "") != c.alive {
				t.Errorf("signSince = %q, alive wanted: %t", got, c.alive)
			}
		})
	}
}

// pagedNodes answers a list page by page, as a client does that decodes into what it is given.
type pagedNodes struct {
	client.Reader
	pages map[string]string
}

func (p pagedNodes) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	return json.NewDecoder(strings.NewReader(p.pages[o.Continue])).Decode(into)
}

// TestI3APageLeavesNothingToTheNext: a Node that has not reported its machine has not that of the Node before it in the list.
func TestI3APageLeavesNothingToTheNext(t *testing.T) {
	nodes := pagedNodes{pages: map[string]string{
		"":     `{"metadata":{"continue":"next"},"items":[{"metadata":{"name":"a"},"status":{"nodeInfo":{"machineID":"m1","systemUUID":"m1-system","bootID":"m1-boot"}}}]}`,
		"next": `{"metadata":{"continue":""},"items":[{"metadata":{"name":"b"}}]}`,
	}}
	seen := &Observer{live: nodes, clock: clocktesting.NewFakePassiveClock(now)}
	machines, err := seen.machines(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if name, found := machines.find(v1alpha1.NodeIdentity{UID: "node-1", MachineID: "m1", SystemUUID: "m1-system", BootID: "m1-boot"}); !found || name != "a" {
		t.Errorf("machine m1 is node %q, expected a", name)
	}
}

// present are the Nodes that there are. There is no Lease and no pod.
type present struct {
	client.Reader
	nodes []corev1.Node
}

func (p *present) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if nodes, is := into.(*corev1.NodeList); is {
		nodes.Items = p.nodes
	}
	return nil
}

func (*present) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// TestI2TheDelayDoesNotGrowWithTheNumberOfRecords: with many records the looks of one are far apart, and those of all are not.
func TestI2TheDelayDoesNotGrowWithTheNumberOfRecords(t *testing.T) {
	node := func(name, machine string) []corev1.Node {
		return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine, SystemUUID: machine + "-system"}}}}
	}
	cases := map[string]struct {
		back   []corev1.Node
		begins bool
	}{
		"the looks of other records show no Node that is back":     {nil, false},
		"one of them shows a Node of the name":                     {node("node", "m7"), true},
		"one of them shows the machine under another name":         {node("other", "m1"), true},
		"one of them shows another machine under another name yet": {node("other", "m7"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nodes, clk := &present{}, clocktesting.NewFakePassiveClock(now)
			f := New(nodes, clk, time.Hour, func(context.Context) (time.Time, error) { return time.Time{}, nil })
			record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{NodeName: "node",
				Sandboxes: []v1alpha1.SandboxRecord{{Node: &v1alpha1.NodeIdentity{UID: "node-1", MachineID: "m1", SystemUUID: "m1-system"}}}}}
			other := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{NodeName: "elsewhere"}}
			for minute := range 6 {
				clk.SetTime(now.Add(time.Duration(minute) * time.Minute))
				if nodes.nodes = nil; minute == 2 {
					nodes.nodes = tc.back
				}
				looked := other
				if minute == 0 || minute == 5 {
					looked = record
				}
				if err := f.Record(t.Context(), looked, release.Absent[release.Node]()); err != nil {
					t.Fatal(err)
				}
			}
			if begins := record.Spec.NodeGone.Since.After(now); begins != tc.begins {
				t.Errorf("gone since %s, the delay begins again wanted: %t", record.Spec.NodeGone.Since, tc.begins)
			}
		})
	}
}

// podsOfNode lists them.
type podsOfNode struct {
	client.Reader
	pods []corev1.Pod
}

func (p podsOfNode) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*corev1.PodList).Items = p.pods
	return nil
}

// TestI11AForgedReportIsNoSignOfLife: plain edit rights on a pod that names a deleted node must not hold the addresses of that node for ever.
func TestI11AForgedReportIsNoSignOfLife(t *testing.T) {
	written := metav1.NewTime(now.Add(-time.Minute))
	report := []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: &written, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
	cases := map[string]struct {
		change func(*corev1.Pod)
		since  time.Time
		alive  bool
	}{
		"on a pod without the finalizer, which no policy judged": {func(p *corev1.Pod) { p.Finalizers, p.DeletionTimestamp = nil, nil }, now.Add(-24 * time.Hour), false},
		"on a pod that is not being deleted":                     {func(p *corev1.Pod) { p.DeletionTimestamp = nil }, now.Add(-24 * time.Hour), false},
		"where the policies are not in force":                    {func(*corev1.Pod) {}, time.Time{}, false},
		"but a judged report on a pod that terminates is one":    {func(*corev1.Pod) {}, now.Add(-24 * time.Hour), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now.Add(-time.Hour)}, Finalizers: []string{v1alpha1.Finalizer},
				ManagedFields: report}, Spec: corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}
			tc.change(&pod)
			f := New(podsOfNode{pods: []corev1.Pod{pod}}, clocktesting.NewFakePassiveClock(now), time.Minute, func(context.Context) (time.Time, error) { return tc.since, nil })
			wrote, err := f.kubeletWrote(t.Context(), "node", time.Time{})
			if err != nil || (wrote != nil) != tc.alive {
				t.Errorf("the kubelet wrote at %v (%v), alive wanted: %t", wrote, err, tc.alive)
			}
		})
	}
}
