// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
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

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// guardedNodes is the resource in errors.
	guardedNodes = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "guardednodes"}
)

// stubAPI serves the calls of an agent, and keeps the statuses that were written. An update has to name the current version.
type stubAPI struct {
	client.WithWatch

	mu       sync.Mutex
	node     *corev1.Node
	nodeUIDs []string // of the token
	guarded  *v1alpha1.GuardedNode
	all      *v1alpha1.AllNodesQuery
	// fail is the error of every call, and refuse that of every write.
	fail, refuse error
	version      int64
	// written are the statuses of the GuardedNode that were written, and tries the attempts.
	written []v1alpha1.GuardedNodeStatus
	tries   int
	// reads counts reads of the identity, guardedReads of the GuardedNode, and queryReads of the AllNodesQuery.
	reads, guardedReads, queryReads int
	// watches gets the name, or "end of" the name, of every watch that begins and ends.
	watches chan string
}

func newStubAPI() *stubAPI {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: nodeUID}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{BootID: bootID, MachineID: "machine"}
	guarded := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(nodeUID), UID: "guarded", ResourceVersion: "100"},
		Spec: v1alpha1.GuardedNodeSpec{NodeName: nodeName, Machines: []v1alpha1.GuardedMachine{{MachineID: "machine", BootID: bootID}}}}
	guarded.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RespondingCondition, Status: metav1.ConditionTrue,
		Reason: string(v1alpha1.ReasonResponding), LastTransitionTime: metav1.NewTime(start)}}
	return &stubAPI{node: node, nodeUIDs: []string{string(nodeUID)}, version: 1000, guarded: guarded, watches: make(chan string, 100)}
}

func (s *stubAPI) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	review := o.(*authenticationv1.SelfSubjectReview)
	s.reads++
	review.Status.UserInfo.Extra = map[string]authenticationv1.ExtraValue{serviceaccount.PodUIDKey: {string(podUID)},
		serviceaccount.NodeNameKey: {nodeName}, serviceaccount.NodeUIDKey: s.nodeUIDs}
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
	return apierrors.NewNotFound(guardedNodes, key.Name)
}

func (s *stubAPI) List(_ context.Context, into client.ObjectList, o ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch list := into.(type) {
	case *v1alpha1.AllNodesQueryList:
		s.queryReads++
		if s.all != nil {
			list.Items = append(list.Items, *s.all.DeepCopy())
		}
	case *v1alpha1.GuardedNodeList:
		if name := nameIn(o); s.guarded != nil && s.guarded.Name == name {
			list.Items = append(list.Items, *s.guarded.DeepCopy())
		}
	}
	return s.fail
}

// IsWatchListSemanticsUnSupported has reflectors list before they watch.
func (*stubAPI) IsWatchListSemanticsUnSupported() bool { return true }

func (s *stubAPI) Watch(ctx context.Context, _ client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
	name, quiet := nameIn(o), watch.NewFake()
	s.watches <- name
	go func() {
		<-ctx.Done()
		quiet.Stop()
		s.watches <- "end of " + name
	}()
	return quiet, nil
}

// nameIn is the name that a list or a watch selects.
func nameIn(o []client.ListOption) string {
	var options client.ListOptions
	options.ApplyOptions(o)
	name, _ := options.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
	return name
}

func (s *stubAPI) Status() client.SubResourceWriter { return &stubStatus{api: s} }

type stubStatus struct {
	client.SubResourceWriter
	api *stubAPI
}

func (s *stubStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	given, stands := o.(*v1alpha1.GuardedNode), s.api.guarded
	s.api.tries++
	switch {
	case s.api.fail != nil:
		return s.api.fail
	case s.api.refuse != nil:
		return s.api.refuse
	case stands == nil || stands.Name != given.Name:
		return apierrors.NewNotFound(guardedNodes, given.Name)
	case given.UID != stands.UID || given.ResourceVersion != stands.ResourceVersion:
		return apierrors.NewConflict(guardedNodes, given.Name, fmt.Errorf("the object is version %s of UID %s", stands.ResourceVersion, stands.UID))
	}
	stands.Status = *given.Status.DeepCopy()
	s.api.touch()
	s.api.written = append(s.api.written, stands.Status)
	return nil
}

// remove deletes the GuardedNode, and gives what there was.
func (s *stubAPI) remove() *v1alpha1.GuardedNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.guarded
	s.guarded = nil
	return there
}

func (s *stubAPI) put(object *v1alpha1.GuardedNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guarded = object
}

// touch gives the GuardedNode another version.
func (s *stubAPI) touch() {
	s.version++
	s.guarded.ResourceVersion = strconv.FormatInt(s.version, 10)
}

func newClock() *clocktesting.FakeClock { return clocktesting.NewFakeClock(start) }

// patience bounds the wait for another goroutine.
const patience = 30 * time.Second

// next is the next value of a channel.
func next(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatal("no value")
		return ""
	}
}
