// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	// deadUID is the UID of a deleted Node.
	deadUID = types.UID("00000000-0000-4000-8000-00000000dead")

	dncFinalizer = "finalizers.acn.azure.com/dnc-operations"
)

// grant adds a ClusterRole as the administrator does for a new resource, and waits until it counts.
func grant(ctx context.Context, resource schema.GroupVersionResource, verbs ...string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: resource.Resource, Labels: map[string]string{noderesource.AggregateLabel: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: verbs}},
	})).To(Succeed())
	Eventually(ctx, func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + managerNamespace + ":" + managerAccount,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: resource.Group, Resource: resource.Resource, Verb: verbs[len(verbs)-1]},
		}}
		err := admin.Create(ctx, review)
		return review.Status.Allowed, err
	}).Should(BeTrue())
}

func create[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(admin.Create(ctx, object)).To(Succeed())
	return object
}

func createNode(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	return create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// release removes all finalizers of an object.
func release(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(admin.Patch(ctx, object.DeepCopy(), patch))).To(Succeed())
}

// azurePolicy is about NodeNetworkConfigs. Its webhook fails open, since no process listens at its target.
func azurePolicy(ctx context.Context, changes ...func(*v1alpha1.NodeResourcePolicySpec)) *v1alpha1.NodeResourcePolicy {
	GinkgoHelper()
	policies++
	return policy(ctx, "azure-"+string(rune('a'+policies)), nodecrds.NodeNetworkConfigs.Group, nodecrds.NodeNetworkConfigs.Resource, changes...)
}

var policies int

func deleting(s *v1alpha1.NodeResourcePolicySpec) { s.Stale = v1alpha1.StaleDelete }

// counts are the numbers of a sweep.
type counts struct{ Objects, Stale, Unowned, Unknown, Conflicts int64 }

// expectSwept waits until a complete sweep has found this, and gives back its status.
func expectSwept(ctx context.Context, name string, want counts) *v1alpha1.SweepStatus {
	GinkgoHelper()
	var found *v1alpha1.SweepStatus
	Eventually(ctx, func(g Gomega) {
		c := condition(ctx, name, v1alpha1.PolicySwept)
		g.Expect(c.Reason).To(Equal(string(v1alpha1.ReasonSweepCompleted)), c.Message)
		found = livePolicy(ctx, name).Status.Sweep
		g.Expect(found).NotTo(BeNil())
		g.Expect(counts{found.Objects, found.Stale, found.Unowned, found.Unknown, found.Conflicts}).To(Equal(want))
	}).Should(Succeed())
	return found
}

// awaitSweeps waits for so many more complete sweeps.
func awaitSweeps(ctx context.Context, policy string, more int) {
	GinkgoHelper()
	swept := func() float64 {
		return metric("holdfast_node_sweeps_total", policy, string(v1alpha1.ReasonSweepCompleted))
	}
	before := swept()
	Eventually(ctx, swept).Should(BeNumerically(">=", before+float64(more)))
}

// isList and isDelete say what a request of the manager is.
func isList(request *http.Request, resource schema.GroupVersionResource) bool {
	return request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/"+resource.Resource)
}

func isDelete(request *http.Request, object client.Object) bool {
	return request.Method == http.MethodDelete && strings.HasSuffix(request.URL.Path, "/"+object.GetName())
}

// statusResponse is a response of the API server.
func statusResponse(request *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	utilruntime.Must(err)
	return &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}
}

var _ = suite.Describe("The sweeper", func() {
	It("finds at its start what went wrong before it, says so in status, event and metric, and leaves it where the policy says Report", func(ctx context.Context) {
		node, other := createNode(ctx, "node"), createNode(ctx, "other")
		stale := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		create(ctx, nodecrds.NodeNetworkConfig(other.Name, other.UID))
		p := azurePolicy(ctx)
		var writes atomic.Int32
		startSweeper(ctx, func(request *http.Request) *http.Response {
			if request.Method == http.MethodPatch && request.URL.Query().Get("fieldManager") == noderesource.SweeperFieldManager {
				writes.Add(1)
			}
			return nil
		}, sweepsOften)
		found := expectSwept(ctx, p.Name, counts{Objects: 2, Stale: 1})
		Expect(found.StaleObjects).To(ConsistOf(v1alpha1.StaleObject{
			Namespace: metav1.NamespaceSystem, Name: node.Name, UID: stale.GetUID(), NodeName: node.Name,
			FoundUID: deadUID, LiveUID: node.UID, Reason: v1alpha1.ReasonStaleNodeUID,
		}))
		Eventually(ctx, notes(ctx, stale, v1alpha1.ReasonStaleNodeObject)).Should(ConsistOf(
			And(ContainSubstring(node.Name), ContainSubstring(string(deadUID)), ContainSubstring(string(node.UID)))))
		for state, n := range map[string]float64{"stale": 1, "owned": 1} {
			Eventually(ctx, func() float64 { return metric("holdfast_node_objects", p.Name, state) }).Should(Equal(n), state)
		}
		written := writes.Load()
		Expect(written).To(BeNumerically(">", 0))
		awaitSweeps(ctx, p.Name, 3)
		Expect(fixture.Exists(ctx, stale)).To(BeTrue())
		Expect(writes.Load()).To(Equal(written), "a sweep that finds the same writes nothing")
	})

	It("deletes the object of a Node that was replaced, says so on policy and Node, and leaves one with other owners", func(ctx context.Context) {
		p := azurePolicy(ctx, deleting)
		startSweeper(ctx, passes, sweepsOften)
		expectSwept(ctx, p.Name, counts{})
		node := createNode(ctx, "node")
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID))
		// The garbage collector takes away references to owners that do not exist, but for an object with an owner of a kind that it does not know.
		shared := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		shared.SetNamespace(metav1.NamespaceDefault)
		shared.SetOwnerReferences(append(shared.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Agent", Name: "agent", UID: "2"}))
		create(ctx, shared)
		Expect(admin.Delete(ctx, node)).To(Succeed())
		again := createNode(ctx, node.Name)
		Eventually(ctx, fixture.Exists).WithArguments(object).Should(BeFalse())
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		Eventually(ctx, notes(ctx, p, v1alpha1.ReasonStaleNodeObjectDeleted)).Should(ConsistOf(And(ContainSubstring(object.GetName()), ContainSubstring(string(node.UID)))))
		Eventually(ctx, notes(ctx, again, v1alpha1.ReasonStaleNodeObjectDeleted)).Should(HaveLen(1))
		Expect(fixture.Exists(ctx, shared)).To(BeTrue())
	})

	It("deletes neither an object that was changed between the look and the deletion, nor another that took the name", func(ctx context.Context) {
		node, other := createNode(ctx, "node"), createNode(ctx, "other")
		adopted, replaced := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID)), create(ctx, nodecrds.NodeNetworkConfig(other.Name, deadUID))
		successor := nodecrds.NodeNetworkConfig(other.Name, other.UID)
		adopt := sync.OnceFunc(func() {
			defer GinkgoRecover()
			live := adopted.DeepCopy()
			live.SetOwnerReferences(nodecrds.NodeNetworkConfig(node.Name, node.UID).GetOwnerReferences())
			Expect(admin.Update(context.Background(), live)).To(Succeed())
		})
		replace := sync.OnceFunc(func() {
			defer GinkgoRecover()
			Expect(admin.Delete(context.Background(), replaced.DeepCopy())).To(Succeed())
			Expect(admin.Create(context.Background(), successor)).To(Succeed())
		})
		p := azurePolicy(ctx, deleting)
		startSweeper(ctx, func(request *http.Request) *http.Response {
			switch { // as a writer does that repairs them just then
			case isDelete(request, adopted):
				adopt()
			case isDelete(request, replaced):
				replace()
			}
			return nil
		}, sweepsOften)
		Eventually(ctx, fixture.Exists).WithArguments(replaced).Should(BeFalse())
		expectSwept(ctx, p.Name, counts{Objects: 2})
		awaitSweeps(ctx, p.Name, 2)
		Expect(fixture.Exists(ctx, adopted)).To(BeTrue())
		Expect(fixture.Exists(ctx, successor)).To(BeTrue())
		Expect(metric("holdfast_node_objects_deleted_total", p.Name)).To(BeZero())
	})

	It("names the finalizers that keep an object, until they are removed", func(ctx context.Context) {
		node := createNode(ctx, "node")
		object := nodecrds.NodeNetworkConfig(node.Name, deadUID)
		object.SetFinalizers([]string{dncFinalizer})
		create(ctx, object)
		p := azurePolicy(ctx, deleting)
		startSweeper(ctx, passes, sweepsOften)
		Eventually(ctx, func(g Gomega) {
			found := livePolicy(ctx, p.Name).Status.Sweep
			g.Expect(found).NotTo(BeNil())
			g.Expect(found.StaleObjects).To(HaveLen(1))
			g.Expect(found.StaleObjects[0].Deleting).To(BeTrue())
			g.Expect(found.StaleObjects[0].Finalizers).To(Equal([]string{dncFinalizer}))
		}).Should(Succeed())
		Eventually(ctx, notes(ctx, object, v1alpha1.ReasonStaleNodeObjectHeld)).Should(ConsistOf(And(ContainSubstring(dncFinalizer), ContainSubstring(string(deadUID)))))
		Expect(metric("holdfast_node_objects_deleted_total", p.Name)).To(Equal(1.0), "one deletion is enough")
		release(ctx, object)
		Eventually(ctx, fixture.Exists).WithArguments(object).Should(BeFalse())
		expectSwept(ctx, p.Name, counts{})
	})

	It("waits until a Node has been missing for the delay, and deletes nothing while it cannot be read", func(ctx context.Context) {
		node := createNode(ctx, "node")
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID))
		p := azurePolicy(ctx, deleting)
		r := startSweeper(ctx, passes, sweepsOften)
		expectSwept(ctx, p.Name, counts{Objects: 1})
		r.when(func(request *http.Request) *http.Response {
			if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/api/v1/nodes/"+node.Name) {
				return statusResponse(request, http.StatusInternalServerError, metav1.StatusReasonInternalError, "no Node for you")
			}
			return nil
		})
		Expect(admin.Delete(ctx, node)).To(Succeed())
		expectSwept(ctx, p.Name, counts{Objects: 1, Unknown: 1})
		r.pass(2 * nodeGoneDelay)
		awaitSweeps(ctx, p.Name, 2)
		Expect(fixture.Exists(ctx, object)).To(BeTrue())

		r.when(passes)
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		r.pass(nodeGoneDelay - time.Second)
		awaitSweeps(ctx, p.Name, 2)
		Expect(fixture.Exists(ctx, object)).To(BeTrue())
		r.pass(2 * time.Second)
		Eventually(ctx, fixture.Exists).WithArguments(object).Should(BeFalse())
	})

	It("reports which ClusterRole it lacks, and continues once it exists", func(ctx context.Context) {
		node := createNode(ctx, "node")
		create(ctx, nodecrds.CNINode(node.Name, deadUID))
		p := policy(ctx, "aws", nodecrds.CNINodes.Group, nodecrds.CNINodes.Resource)
		startSweeper(ctx, passes, sweepsOften)
		_, text, found := strings.Cut(expectCondition(ctx, p.Name, v1alpha1.PolicySwept, v1alpha1.ReasonSweepForbidden), "ClusterRole: ")
		Expect(found).To(BeTrue())
		role := &rbacv1.ClusterRole{}
		Expect(yaml.UnmarshalStrict([]byte(text), role)).To(Succeed(), text)
		Expect(role.Rules).To(Equal([]rbacv1.PolicyRule{{
			APIGroups: []string{nodecrds.CNINodes.Group}, Resources: []string{nodecrds.CNINodes.Resource}, Verbs: []string{"get", "list"}}}))
		create(ctx, role)
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
	})

	It("keeps the counts of the last complete sweep when a page cannot be read, and begins anew when the API server has forgotten where it was", func(ctx context.Context) {
		node := createNode(ctx, "node")
		for _, namespace := range []string{metav1.NamespaceDefault, managerNamespace, metav1.NamespaceSystem} {
			object := nodecrds.NodeNetworkConfig(node.Name, deadUID)
			object.SetNamespace(namespace)
			create(ctx, object)
		}
		var broken, expired atomic.Int64
		p := azurePolicy(ctx)
		startSweeper(ctx, func(request *http.Request) *http.Response {
			if !isList(request, nodecrds.NodeNetworkConfigs) {
				return nil
			}
			query := request.URL.Query()
			query.Set("limit", "2")
			request.URL.RawQuery = query.Encode()
			switch {
			case query.Get("continue") == "":
				return nil
			case broken.Load() > 0:
				broken.Add(1)
				return statusResponse(request, http.StatusInternalServerError, metav1.StatusReasonInternalError, "page lost")
			case expired.Add(1) == 1:
				return statusResponse(request, http.StatusGone, metav1.StatusReasonExpired, "the continue token has expired")
			}
			return nil
		}, sweepsOften)
		expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 3})
		Expect(expired.Load()).To(BeNumerically(">=", 2))
		broken.Store(1)
		Eventually(ctx, func() string { return condition(ctx, p.Name, v1alpha1.PolicySwept).Message }).Should(ContainSubstring("page lost"))
		Expect(livePolicy(ctx, p.Name).Status.Sweep.Stale).To(Equal(int64(3)))
		broken.Store(0)
		expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 3})
	})

	It("reports a prefix and an address of two live Nodes, until one gives it up; not what an object of a deleted Node holds", func(ctx context.Context) {
		var objects []*unstructured.Unstructured
		for name, ip := range map[string]string{"a": "10.244.2.0/24", "b": "10.244.2.9", "c": "10.244.2.9"} {
			node := createNode(ctx, name)
			if name == "c" {
				node.UID = deadUID
			}
			objects = append(objects, primary(ctx, create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID)), ip))
		}
		p := azurePolicy(ctx, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.Addresses = []string{"self.status.networkContainers.filter(c, has(c.primaryIP)).map(c, c.primaryIP)"}
		})
		startSweeper(ctx, passes, sweepsOften)
		found := expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 1, Conflicts: 1})
		Expect(found.AddressConflicts).To(Equal([]v1alpha1.AddressConflict{{
			Addresses: []string{"10.244.2.0/24", "10.244.2.9"}, Objects: []string{"kube-system/a", "kube-system/b"}, NodeNames: []string{"a", "b"}}}))
		for _, object := range objects {
			if object.GetName() != "c" {
				Eventually(ctx, notes(ctx, object, v1alpha1.ReasonNodeAddressConflict)).Should(ConsistOf(And(ContainSubstring("10.244.2.0/24"), ContainSubstring("10.244.2.9"))))
			}
		}
		Expect(metric("holdfast_node_address_conflicts", p.Name)).To(Equal(1.0))
		for _, object := range objects {
			if object.GetName() == "b" {
				primary(ctx, object, "10.244.3.9")
			}
		}
		expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 1})
	})
})

// primary writes a primary address or prefix into the status of a NodeNetworkConfig.
func primary(ctx context.Context, object *unstructured.Unstructured, ip string) *unstructured.Unstructured {
	GinkgoHelper()
	object.Object["status"] = map[string]any{"assignedIPCount": int64(1), "status": "Updated", "networkContainers": []any{map[string]any{
		"id": "6ee5a7f1-8a2c-4d7b-9b61-2f0d1a3c4e5f", "type": "vnet", "assignmentMode": "dynamic", "version": int64(0),
		"nodeIP": "10.224.0.4", "primaryIP": ip, "subnetAddressSpace": "10.244.0.0/16"}}}
	Expect(admin.Status().Update(ctx, object)).To(Succeed())
	return object
}
