// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	nodeName = "node-a"
	nodeUID  = types.UID("node-uid")
	podUID   = types.UID("agent-pod")
	bootID   = "boot"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// stubAPI answers the few calls that an agent makes, and keeps what was applied.
type stubAPI struct {
	client.WithWatch

	mu       sync.Mutex
	node     *corev1.Node
	nodeUIDs []string // of the token
	guarded  *v1alpha1.GuardedNode
	all      *v1alpha1.AllNodesQuery
	fail     error
	version  int64
	applied  []*unstructured.Unstructured
	// responses are the writes of the response to all nodes.
	responses []v1alpha1.AllNodesResponse
	reads     int
	// guardedReads are those of the GuardedNode.
	guardedReads int
	// refused is the error of every write of an answer, records what the record is, or unlisted why that cannot be read.
	refused  error
	records  []v1alpha1.IPAllocation
	unlisted error
	// tried gets every read of the identity that failed, and every write that did.
	tried chan struct{}
}

func newStubAPI() *stubAPI {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: nodeUID}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{BootID: bootID, MachineID: "machine"}
	return &stubAPI{node: node, nodeUIDs: []string{string(nodeUID)}, version: 1000, tried: make(chan struct{}, 1000),
		guarded: &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(nodeUID)}}}
}

func (s *stubAPI) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	review := o.(*authenticationv1.SelfSubjectReview)
	s.reads++
	review.Status.UserInfo.Extra = map[string]authenticationv1.ExtraValue{serviceaccount.PodUIDKey: {string(podUID)},
		serviceaccount.NodeNameKey: {nodeName}, serviceaccount.NodeUIDKey: s.nodeUIDs}
	if s.fail != nil {
		s.tried <- struct{}{}
	}
	return s.fail
}

func (s *stubAPI) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	switch o := into.(type) {
	case *corev1.Node:
		if s.node != nil {
			s.node.DeepCopyInto(o)
			return nil
		}
	case *v1alpha1.GuardedNode:
		s.guardedReads++
		if s.guarded != nil && s.guarded.Name == key.Name {
			s.guarded.DeepCopyInto(o)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (s *stubAPI) List(_ context.Context, into client.ObjectList, o ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var options client.ListOptions
	options.ApplyOptions(o)
	if list, isQuery := into.(*v1alpha1.AllNodesQueryList); isQuery {
		if s.all != nil {
			list.Items = append(list.Items, *s.all.DeepCopy())
		}
		return nil
	}
	for i := range s.records {
		if options.FieldSelector.Matches(fields.Set{metav1.ObjectNameField: s.records[i].Name}) {
			list := into.(*v1alpha1.IPAllocationList)
			list.Items = append(list.Items, s.records[i])
		}
	}
	return s.unlisted
}

func (s *stubAPI) Status() client.SubResourceWriter { return &stubStatus{api: s} }

type stubStatus struct {
	client.SubResourceWriter
	api *stubAPI
}

func (s *stubStatus) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	if err := cmp.Or(s.api.fail, s.api.refused); err != nil {
		s.api.tried <- struct{}{}
		return err
	}
	applied := o.(interface {
		DeepCopy() *unstructured.Unstructured
	})
	s.api.applied = append(s.api.applied, applied.DeepCopy())
	s.api.version++
	o.(interface{ SetResourceVersion(string) }).SetResourceVersion(version(s.api.version))
	return nil
}

func (s *stubStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	if s.api.fail == nil {
		s.api.guarded = o.(*v1alpha1.GuardedNode).DeepCopy()
		s.api.responses = append(s.api.responses, *s.api.guarded.Status.AllNodes)
	}
	return s.api.fail
}

// answers are those of the last write.
func (s *stubAPI) last(t *testing.T) v1alpha1.IPAllocationStatus {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var record v1alpha1.IPAllocation
	if len(s.applied) == 0 {
		t.Fatal("nothing was written")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.applied[len(s.applied)-1].Object, &record); err != nil {
		t.Fatal(err)
	}
	return record.Status
}

func (s *stubAPI) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *stubAPI) count() (writes, responses int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.applied), len(s.responses)
}

func newClock() *clocktesting.FakeClock { return clocktesting.NewFakeClock(start) }
