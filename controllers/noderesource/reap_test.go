// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// TestAShadowDeletesNoStaleObject: the reaper has live evidence for a deletion.
func TestAShadowDeletesNoStaleObject(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "network.example.com", Version: "v1", Resource: "hostsubnets"}
	cases := map[string]struct {
		report  *shadow.Reporter
		deletes []string
		again   time.Duration
	}{
		"mode Guard deletes it": {nil, []string{"node-7"}, 0},
		"mode Shadow reports it, and looks again with the next sweep": {shadow.NewReporter(), nil, time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "network.example.com/v1", "kind": "HostSubnet",
				"metadata": map[string]any{"name": "node-7", "uid": "object-7", "resourceVersion": "9"}}}
			objects := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "HostSubnetList"}, stale)
			clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			s := &sweeper{objects: objects, recorder: events.NewFakeRecorder(10), reported: eventlimit.New(clock, sweepReports), clock: clock,
				options: Options{Shadow: tc.report, SweepInterval: time.Hour}}
			run := &sweepRun{policy: &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "hostsubnets"}}, state: &sweptPolicy{}, resource: resource}
			seen := &observed{object: nodeidentity.Object{Name: "node-7", UID: "object-7", ResourceVersion: "9", NodeName: "node-7"}}

			again, err := s.delete(t.Context(), run, seen)
			if err != nil || again != tc.again {
				t.Errorf("got %s, %v; expected %s and no error", again, err, tc.again)
			}
			var deleted []string
			for _, action := range objects.Actions() {
				if deletion, is := action.(interface{ GetName() string }); is && action.GetVerb() == "delete" {
					deleted = append(deleted, deletion.GetName())
				}
			}
			if diff := cmp.Diff(tc.deletes, deleted); diff != "" {
				t.Errorf("deletions (-want +got):\n%s", diff)
			}
			_, err = objects.Resource(resource).Get(t.Context(), "node-7", metav1.GetOptions{})
			if gone := apierrors.IsNotFound(err); gone != (tc.deletes != nil) {
				t.Errorf("the object is gone: %t (%v)", gone, err)
			}
		})
	}
}

// TestI4AnAnnotationWithTheUIDOfALiveNodeOfAnyNameSparesItsObject: the policy takes the Node's name from another place than it is in.
func TestI4AnAnnotationWithTheUIDOfALiveNodeOfAnyNameSparesItsObject(t *testing.T) {
	byAnnotation, byOwner := nodeidentity.Policy{Annotation: "example.com/node-uid"}, nodeidentity.Policy{}
	reference := func(uid types.UID) *nodeidentity.Object {
		return &nodeidentity.Object{Name: "subnet-node-7", References: []nodeidentity.Reference{{Name: "subnet-node-7", UID: uid}}}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-7", UID: "live"}}
	s := &sweeper{live: ctrlfake.NewClientBuilder().WithObjects(node).Build()}
	for name, tc := range map[string]struct {
		policy nodeidentity.Policy
		uid    types.UID
		want   bool
	}{
		"the UID of a live Node":                         {byAnnotation, "live", true},
		"the UID of a Node that is gone":                 {byAnnotation, "gone", false},
		"owner references are compared with their names": {byOwner, "live", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := s.isOfLiveNode(t.Context(), tc.policy, reference(tc.uid)); got != tc.want || err != nil {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
	s.live = interceptor.NewClient(ctrlfake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("unread")
		}})
	if _, err := s.isOfLiveNode(t.Context(), byAnnotation, reference("gone")); err == nil {
		t.Error("Nodes that could not be read are none")
	}
}
