// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pagedNodes lists page by page, like a client that decodes into the given object.
type pagedNodes struct {
	client.Reader
	pages map[string]string
}

func (p pagedNodes) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	return json.NewDecoder(strings.NewReader(p.pages[o.Continue])).Decode(into)
}

// TestI3PagesShareNoState: a Node without machine IDs does not get those of the Node before it in the list.
func TestI3PagesShareNoState(t *testing.T) {
	nodes := pagedNodes{pages: map[string]string{
		"":     `{"metadata":{"continue":"next"},"items":[{"metadata":{"name":"a"},"status":{"nodeInfo":{"machineID":"m1","systemUUID":"m1-system","bootID":"m1-boot"}}}]}`,
		"next": `{"metadata":{"continue":""},"items":[{"metadata":{"name":"b"}}]}`,
	}}
	observer := New(nodes, clocktesting.NewFakePassiveClock(now), nil)
	byHardware, err := observer.nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[[2]string][]string{{"m1", "m1-system"}: {"a"}, {}: {"b"}}, byHardware); diff != "" {
		t.Errorf("Nodes by their IDs (-want +got):\n%s", diff)
	}
}

// podsOfNode lists them.
type podsOfNode struct {
	client.Reader
	pods []corev1.Pod
}

// List fails for a list that the API server may make from etcd, which has every pod of the cluster (0326).
func (p podsOfNode) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	switch into := into.(type) {
	case *metav1.PartialObjectMetadataList:
		into.ResourceVersion = "7"
		if _, named := o.FieldSelector.RequiresExactMatch("metadata.name"); !named || o.Namespace == "" {
			return fmt.Errorf("the version of pods is read from a list of pods, with the options %+v", o)
		}
	case *corev1.PodList:
		if into.Items = p.pods; o.Limit > 0 || o.Raw == nil || o.Raw.ResourceVersion != "7" || o.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
			return fmt.Errorf("the pods of a node are listed with the options %+v", o)
		}
	}
	return nil
}

// TestI11AForgedReportIsNoSignOfLife: plain edit rights on a pod that names a deleted node must not hold the addresses of that node forever.
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
			f := New(podsOfNode{pods: []corev1.Pod{pod}}, clocktesting.NewFakePassiveClock(now), func(context.Context) (time.Time, error) { return tc.since, nil })
			wrote, err := f.kubeletWrote(t.Context(), "node", time.Time{})
			if err != nil || (wrote != nil) != tc.alive {
				t.Errorf("the kubelet wrote at %v (%v), alive wanted: %t", wrote, err, tc.alive)
			}
		})
	}
}

// hangingList hangs while the pods of one node are listed.
type hangingList struct {
	podsOfNode
	node            string
	listing, resume chan struct{}
}

func (h hangingList) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.FieldSelector != nil && o.FieldSelector.Matches(fields.Set{"spec.nodeName": h.node}) {
		close(h.listing)
		<-h.resume
	}
	return h.podsOfNode.List(ctx, into, opts...)
}

// TestOneNodeWithASlowListKeepsNoOtherWaiting: with a lock for all, a thousand deleted Nodes have their signs read one after the other.
func TestOneNodeWithASlowListKeepsNoOtherWaiting(t *testing.T) {
	h := hangingList{node: "slow", listing: make(chan struct{}), resume: make(chan struct{})}
	f := New(h, clocktesting.NewFakePassiveClock(now), func(context.Context) (time.Time, error) { return now, nil })
	slow := make(chan error, 2)
	for range cap(slow) { // both are served by one list: a second one would close the channel again
		go func() {
			_, err := f.kubeletWrote(t.Context(), "slow", time.Time{})
			slow <- err
		}()
	}
	<-h.listing
	if _, err := f.kubeletWrote(t.Context(), "other", time.Time{}); err != nil {
		t.Error(err)
	}
	close(h.resume)
	if err := errors.Join(<-slow, <-slow); err != nil {
		t.Error(err)
	}
}
