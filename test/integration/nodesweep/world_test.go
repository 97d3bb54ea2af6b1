// SPDX-License-Identifier: Apache-2.0

package nodesweep_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

// sweptResources are those that specs use.
var sweptResources = []schema.GroupVersionKind{
	nodecrds.NodeNetworkConfigs.GroupVersion().WithKind("NodeNetworkConfig"),
	nodecrds.CiliumNodes.GroupVersion().WithKind("CiliumNode"),
	nodecrds.HostSubnets.GroupVersion().WithKind("HostSubnet"),
	nodecrds.BlockAffinities.GroupVersion().WithKind("BlockAffinity"),
	nodecrds.CNINodes.GroupVersion().WithKind("CNINode"),
}

// grantedResources are those that the manager may read and delete in every spec. CNINodes are for those about permissions.
var grantedResources = []schema.GroupVersionResource{
	nodecrds.NodeNetworkConfigs, nodecrds.CiliumNodes, nodecrds.HostSubnets, nodecrds.BlockAffinities,
}

// specRole marks the ClusterRoles that a spec makes.
const specRole = "test.holdfast.dev/spec"

// Every spec begins with no policy, no object and no Node. Its manager ends before it is cleared.
var _ = BeforeEach(func() {
	specs++
	DeferCleanup(clearAll, NodeTimeout(specTimeout))
})

var specs int

// named is a name of this spec only: metrics and events outlive it.
func named(name string) string { return fmt.Sprintf("%s-%d", name, specs) }

func clearAll(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.DeleteAllOf(ctx, &v1alpha1.NodeResourcePolicy{})).To(Succeed())
	Expect(client.IgnoreNotFound(admin.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: noderesource.ConfigurationName}}))).To(Succeed())
	for _, kind := range sweptResources {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		Expect(admin.List(ctx, &list)).To(Succeed())
		for i := range list.Items {
			if len(list.Items[i].GetFinalizers()) > 0 {
				release(ctx, &list.Items[i])
			}
			Expect(client.IgnoreNotFound(admin.Delete(ctx, &list.Items[i]))).To(Succeed())
		}
	}
	Expect(admin.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &rbacv1.ClusterRole{}, client.HasLabels{specRole})).To(Succeed())
	awaitVerbs(ctx, nodecrds.CNINodes, false, "get", "list", "delete")
}

// grant adds a ClusterRole as the administrator does for a new resource, and waits until it counts.
func grant(ctx context.Context, name string, resource schema.GroupVersionResource, verbs ...string) *rbacv1.ClusterRole {
	GinkgoHelper()
	role := create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{noderesource.AggregateLabel: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: verbs}},
	})
	awaitVerbs(ctx, resource, true, verbs...)
	return role
}

// policy is that of a resource; it fails open, since nobody listens at the target of its webhook.
func policy(resource schema.GroupVersionResource, changes ...func(*v1alpha1.NodeResourcePolicySpec)) *v1alpha1.NodeResourcePolicy {
	p := &v1alpha1.NodeResourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: named(resource.Resource)},
		Spec: v1alpha1.NodeResourcePolicySpec{
			Resource:      v1alpha1.GuardedResource{Group: resource.Group, Resource: resource.Resource},
			FailurePolicy: v1alpha1.PolicyIgnore,
		},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func deleting(s *v1alpha1.NodeResourcePolicySpec) { s.Stale = v1alpha1.StaleDelete }

func addresses(expressions ...string) func(*v1alpha1.NodeResourcePolicySpec) {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.Addresses = expressions }
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

func deleteNode(ctx context.Context, node *corev1.Node) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, node)).To(Succeed())
}

// replaceNode registers another Node under the same name.
func replaceNode(ctx context.Context, node *corev1.Node) *corev1.Node {
	GinkgoHelper()
	deleteNode(ctx, node)
	return createNode(ctx, node.Name)
}

// release lets an object go: it removes all of its finalizers.
func release(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(admin.Patch(ctx, object.DeepCopy(), patch))).To(Succeed())
}

// writeStatus writes the status that an object was built with; the API server drops it at a creation.
func writeStatus(ctx context.Context, object *unstructured.Unstructured, status map[string]any) {
	GinkgoHelper()
	live := object.DeepCopy()
	Eventually(func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
			return err
		}
		live.Object["status"] = status
		return admin.Status().Update(ctx, live)
	}).WithContext(ctx).Should(Succeed())
}

// gone says whether the very object is gone.
func gone(ctx context.Context, object client.Object) func() (bool, error) {
	return func() (bool, error) {
		live := object.DeepCopyObject().(client.Object)
		err := admin.Get(ctx, client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && live.GetUID() != object.GetUID(), err
	}
}

func livePolicy(ctx context.Context, g Gomega, name string) *v1alpha1.NodeResourcePolicy {
	p := &v1alpha1.NodeResourcePolicy{}
	g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
	return p
}

// swept is the reason and status of condition Swept, as of the policy's present generation, and its message.
func swept(ctx context.Context, g Gomega, name string) metav1.Condition {
	p := livePolicy(ctx, g, name)
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PolicySwept)
	g.Expect(c).NotTo(BeNil())
	g.Expect(c.ObservedGeneration).To(Equal(p.Generation))
	return *c
}

// counts are the numbers of a sweep.
type counts struct{ Objects, Stale, Unowned, Unknown, Conflicts int64 }

// expectSwept waits until a complete sweep has found this, and gives back its status.
func expectSwept(ctx context.Context, name string, want counts) *v1alpha1.SweepStatus {
	GinkgoHelper()
	var found *v1alpha1.SweepStatus
	Eventually(func(g Gomega) {
		c := swept(ctx, g, name)
		g.Expect(c.Reason).To(Equal(string(v1alpha1.ReasonSweepCompleted)), c.Message)
		g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
		found = livePolicy(ctx, g, name).Status.Sweep
		g.Expect(found).NotTo(BeNil())
		g.Expect(counts{found.Objects, found.Stale, found.Unowned, found.Unknown, found.Conflicts}).To(Equal(want))
	}).WithContext(ctx).Should(Succeed())
	return found
}

// expectNotSwept waits until the condition says why the last sweep was not complete, and gives back its message.
func expectNotSwept(ctx context.Context, name string, reason v1alpha1.Reason) string {
	GinkgoHelper()
	var message string
	Eventually(func(g Gomega) {
		c := swept(ctx, g, name)
		g.Expect(c.Reason).To(Equal(string(reason)), c.Message)
		g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		message = c.Message
	}).WithContext(ctx).Should(Succeed())
	return message
}

// notes are the notes of the events of a reason about an object; how often an event was repeated does not count.
func notes(ctx context.Context, about client.Object, reason v1alpha1.Reason) func(Gomega) []string {
	return func(g Gomega) []string {
		var events eventsv1.EventList
		g.Expect(admin.List(ctx, &events)).To(Succeed())
		var found []string
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.UID == about.GetUID() && e.Reason == string(reason) {
				found = append(found, e.Note)
			}
		}
		return found
	}
}

// metric is the value of a series of the policy; false if there is none. More labels are pairs of name and value.
func metric(name, policy string, labels ...string) (float64, bool) {
	GinkgoHelper()
	families, err := ctrlmetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	want := map[string]string{"policy": policy}
	for i := 0; i < len(labels); i += 2 {
		want[labels[i]] = labels[i+1]
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			matched := 0
			for _, label := range series.GetLabel() {
				if value, wanted := want[label.GetName()]; wanted && value == label.GetValue() {
					matched++
				}
			}
			if matched == len(want) {
				return series.GetGauge().GetValue() + series.GetCounter().GetValue(), true
			}
		}
	}
	return 0, false
}

// gauge is the value of a series that has to be there.
func gauge(name, policy string, labels ...string) func(Gomega) float64 {
	return func(g Gomega) float64 {
		value, found := metric(name, policy, labels...)
		g.Expect(found).To(BeTrue(), "no series %s of policy %s", name, policy)
		return value
	}
}

// change changes a policy's specification.
func change(ctx context.Context, name string, edit func(*v1alpha1.NodeResourcePolicySpec)) {
	GinkgoHelper()
	Eventually(func(g Gomega) error {
		p := livePolicy(ctx, g, name)
		edit(&p.Spec)
		return admin.Update(ctx, p)
	}).WithContext(ctx).Should(Succeed())
}

// label changes nothing but a policy's metadata.
func label(ctx context.Context, name, value string) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"test.holdfast.dev/label":"`+value+`"}}}`))
	Expect(admin.Patch(ctx, &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)).To(Succeed())
}
