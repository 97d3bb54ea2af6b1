// SPDX-License-Identifier: Apache-2.0

package nodesweep_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const dncFinalizer = "finalizers.acn.azure.com/dnc-operations"

// isDelete says whether a request deletes this object.
func isDelete(request *http.Request, object client.Object) bool {
	return request.Method == http.MethodDelete && strings.HasSuffix(request.URL.Path, "/"+object.GetName())
}

var _ = Describe("Reaping", func() {
	It("deletes the object of a Node that was replaced, and says so on policy and Node", func(ctx context.Context) {
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		startSweeper(ctx, nil)
		expectSwept(ctx, p.Name, counts{})
		first := createNode(ctx, named("node"))
		object := create(ctx, nodecrds.NodeNetworkConfig(first.Name, first.UID))

		node := replaceNode(ctx, first)
		Eventually(gone(ctx, object)).Should(BeTrue())
		expectSwept(ctx, p.Name, counts{})
		Eventually(notes(ctx, p, v1alpha1.ReasonStaleNodeObjectDeleted)).Should(ConsistOf(And(ContainSubstring(object.GetName()), ContainSubstring(string(first.UID)))))
		Eventually(notes(ctx, node, v1alpha1.ReasonStaleNodeObjectDeleted)).Should(HaveLen(1))
		Eventually(gauge("holdfast_node_objects_deleted_total", p.Name)).Should(Equal(1.0))

		own := create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID))
		label(ctx, p.Name, "again")
		Consistently(gone(ctx, own)).Should(BeFalse())
	}, SpecTimeout(specTimeout))

	It("deletes nothing that was changed between the look and the deletion, and looks again", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		var deletes atomic.Int64
		startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			if isDelete(request, object) && deletes.Add(1) == 1 {
				adopt(object, node) // as a writer does that repairs it just then
			}
			return nil
		})
		Eventually(deletes.Load).Should(Equal(int64(1)))
		expectSwept(ctx, p.Name, counts{Objects: 1})
		Consistently(gone(ctx, object)).Should(BeFalse())
		Expect(deletes.Load()).To(Equal(int64(1)), "it is not stale any more")
		_, counted := metric("holdfast_node_objects_deleted_total", p.Name)
		Expect(counted).To(BeFalse())
	}, SpecTimeout(specTimeout))

	It("does not delete another object that took the name in between", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		var successor *unstructured.Unstructured
		replaceOnce := sync.OnceFunc(func() {
			deleteNow(object)
			successor = nodecrds.NodeNetworkConfig(node.Name, node.UID)
			createNow(successor)
		})
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			if isDelete(request, object) {
				replaceOnce()
			}
			return nil
		})
		Eventually(gone(ctx, object)).Should(BeTrue())
		expectSwept(ctx, p.Name, counts{Objects: 1})
		Consistently(gone(ctx, successor)).Should(BeFalse())
	}, SpecTimeout(specTimeout))

	It("takes it for done when the garbage collector was faster", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		var deletes atomic.Int64
		startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			if isDelete(request, object) {
				deletes.Add(1)
				deleteNow(object)
			}
			return nil
		})
		expectSwept(ctx, p.Name, counts{})
		Expect(deletes.Load()).To(Equal(int64(1)))
		_, counted := metric("holdfast_node_objects_deleted_total", p.Name)
		Expect(counted).To(BeFalse(), "it was not the sweeper's deletion")
		Expect(notes(ctx, p, v1alpha1.ReasonStaleNodeObjectDeleted)(Default)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("names the finalizers that keep an object, until they let go", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := nodecrds.NodeNetworkConfig(node.Name, deadUID)
		object.SetFinalizers([]string{dncFinalizer})
		create(ctx, object)
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		startSweeper(ctx, sweepsOften)

		Eventually(func(g Gomega) {
			found := livePolicy(ctx, g, p.Name).Status.Sweep
			g.Expect(found).NotTo(BeNil())
			g.Expect(found.StaleObjects).To(HaveLen(1))
			g.Expect(found.StaleObjects[0].Deleting).To(BeTrue())
			g.Expect(found.StaleObjects[0].Finalizers).To(Equal([]string{dncFinalizer}))
		}).WithContext(ctx).Should(Succeed())
		Eventually(notes(ctx, object, v1alpha1.ReasonStaleNodeObjectHeld)).Should(ConsistOf(And(ContainSubstring(dncFinalizer), ContainSubstring(string(deadUID)))))
		Eventually(gauge("holdfast_node_objects_held", p.Name)).Should(Equal(1.0))
		Expect(gauge("holdfast_node_objects_deleted_total", p.Name)(Default)).To(Equal(1.0), "one deletion is enough")

		release(ctx, object)
		Eventually(gone(ctx, object)).Should(BeTrue())
		expectSwept(ctx, p.Name, counts{})
		Eventually(gauge("holdfast_node_objects_held", p.Name)).Should(BeZero())
	}, SpecTimeout(specTimeout))

	It("says since when an object is held that somebody else deleted", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := nodecrds.NodeNetworkConfig(node.Name, deadUID)
		object.SetFinalizers([]string{dncFinalizer})
		create(ctx, object)
		Expect(admin.Delete(ctx, object)).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		startSweeper(ctx, nil)
		found := expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		Expect(found.StaleObjects[0].Deleting).To(BeTrue())
		Eventually(notes(ctx, object, v1alpha1.ReasonStaleNodeObjectHeld)).Should(ConsistOf(
			ContainSubstring(object.GetDeletionTimestamp().UTC().Format(time.RFC3339))))
	}, SpecTimeout(specTimeout))

	It("waits until a Node has been missing for the delay, and begins anew when it was seen", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		s := startSweeper(ctx, sweepsOften)
		expectSwept(ctx, p.Name, counts{Objects: 1})
		deleteNode(ctx, node)
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		awaitSweeps(p.Name, 2)
		s.pass(nodeGoneDelay - time.Second)
		Consistently(gone(ctx, object)).Should(BeFalse())

		// Another Node of the name comes for a moment. That makes the object stale at once; it is kept by force.
		s.when(func(request *http.Request) *http.Response {
			if isDelete(request, object) {
				return answer(request, http.StatusInternalServerError, metav1.StatusReasonInternalError, "not now")
			}
			return nil
		})
		again := createNode(ctx, node.Name)
		expectFirstStale(ctx, p.Name, v1alpha1.ReasonStaleNodeUID)
		deleteNode(ctx, again)
		expectFirstStale(ctx, p.Name, v1alpha1.ReasonNodeMissing)
		s.when(nil)
		awaitSweeps(p.Name, 2)
		s.pass(nodeGoneDelay - time.Second)
		Consistently(gone(ctx, object)).Should(BeFalse())

		s.pass(2 * time.Second)
		Eventually(gone(ctx, object)).Should(BeTrue())
		expectSwept(ctx, p.Name, counts{})
	}, SpecTimeout(specTimeout))

	It("never deletes an object with other owners, or with the live Node's UID beside a stale one", func(ctx context.Context) {
		node, other := createNode(ctx, named("node")), createNode(ctx, named("other"))
		shared := nodecrds.CiliumNode(node.Name, deadUID)
		shared.SetOwnerReferences(append(shared.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "2"}))
		create(ctx, shared)
		mixed := nodecrds.CiliumNode(other.Name, deadUID)
		mixed.SetOwnerReferences(append(mixed.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: other.Name, UID: other.UID}))
		create(ctx, mixed)
		p := create(ctx, policy(nodecrds.CiliumNodes, deleting))
		startSweeper(ctx, sweepsOften)
		expectSwept(ctx, p.Name, counts{Objects: 2, Stale: 2})
		awaitSweeps(p.Name, 3)
		Expect(gone(ctx, shared)()).To(BeFalse())
		Expect(gone(ctx, mixed)()).To(BeFalse())
		_, counted := metric("holdfast_node_objects_deleted_total", p.Name)
		Expect(counted).To(BeFalse())
	}, SpecTimeout(specTimeout))

	It("deletes no faster than the limit, for all policies together",
		secondpass.Exempt("a deletion that fails uses up the limit and the clock that fills it stands still"), func(ctx context.Context) {
			node := createNode(ctx, named("node"))
			var objects []client.Object
			for _, name := range []string{"a", "b"} {
				object := nodecrds.NodeNetworkConfig(node.Name, deadUID)
				object.SetNamespace(map[string]string{"a": "default", "b": managerNamespace}[name])
				objects = append(objects, create(ctx, object))
			}
			objects = append(objects, create(ctx, nodecrds.CiliumNode(node.Name, deadUID)))
			p, q := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting)), create(ctx, policy(nodecrds.CiliumNodes, deleting))
			// The bucket fills by the manager's clock, which stands still: it holds one deletion.
			s := startSweeper(ctx, func(o *noderesource.Options) { o.SweepInterval, o.DeletesPerSecond = often, 1 })
			left := func() (n int) {
				for _, object := range objects {
					if isGone, err := gone(ctx, object)(); err != nil || !isGone {
						n++
					}
				}
				return n
			}
			for want := 2; want >= 0; want-- {
				Eventually(left).Should(Equal(want))
				awaitSweeps(p.Name, 2)
				awaitSweeps(q.Name, 2)
				Expect(left()).To(Equal(want))
				s.pass(time.Second)
			}
		}, SpecTimeout(specTimeout))

	It("goes on with the next object when one cannot be deleted, and reports before it deletes", func(ctx context.Context) {
		first, second := createNode(ctx, named("a")), createNode(ctx, named("b"))
		kept := create(ctx, nodecrds.NodeNetworkConfig(first.Name, deadUID))
		object := create(ctx, nodecrds.NodeNetworkConfig(second.Name, deadUID))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		s := startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			if isDelete(request, kept) {
				return answer(request, http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "x" denied the request: not this one`)
			}
			return nil
		})
		Eventually(gone(ctx, object)).Should(BeTrue())
		Expect(gone(ctx, kept)()).To(BeFalse())
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		s.when(nil)
		Eventually(gone(ctx, kept)).Should(BeTrue())
		Eventually(notes(ctx, kept, v1alpha1.ReasonStaleNodeObject)).Should(HaveLen(1))
	}, SpecTimeout(specTimeout))

	It("deletes nothing when the Node cannot be read", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/api/v1/nodes/"+node.Name) {
				return answer(request, http.StatusInternalServerError, metav1.StatusReasonInternalError, "no Node for you")
			}
			return nil
		})
		expectSwept(ctx, p.Name, counts{Objects: 1, Unknown: 1})
		Consistently(gone(ctx, object)).Should(BeFalse())
		Expect(notes(ctx, object, v1alpha1.ReasonStaleNodeObject)(Default)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("stops deleting when the policy says Report", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		startSweeper(ctx, sweepsOften)
		expectSwept(ctx, p.Name, counts{})
		change(ctx, p.Name, func(spec *v1alpha1.NodeResourcePolicySpec) { spec.Stale = v1alpha1.StaleReport })
		object := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		awaitSweeps(p.Name, 2)
		Expect(gone(ctx, object)()).To(BeFalse())
	}, SpecTimeout(specTimeout))
})

// adopt, deleteNow and createNow are what others do while a request of the manager is on its way.
func adopt(object *unstructured.Unstructured, node *corev1.Node) {
	defer GinkgoRecover()
	owner := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"` + node.Name + `","uid":"` + string(node.UID) + `"}]}}`
	Expect(admin.Patch(context.Background(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(owner)))).To(Succeed())
}

func deleteNow(object *unstructured.Unstructured) {
	defer GinkgoRecover()
	Expect(client.IgnoreNotFound(admin.Delete(context.Background(), object.DeepCopy()))).To(Succeed())
}

func createNow(object *unstructured.Unstructured) {
	defer GinkgoRecover()
	Expect(admin.Create(context.Background(), object)).To(Succeed())
}

// expectFirstStale waits until the first object that the status names is there for this reason.
func expectFirstStale(ctx context.Context, policy string, reason v1alpha1.Reason) {
	GinkgoHelper()
	Eventually(func(g Gomega) v1alpha1.Reason {
		found := livePolicy(ctx, g, policy).Status.Sweep
		g.Expect(found).NotTo(BeNil())
		g.Expect(found.StaleObjects).NotTo(BeEmpty())
		return found.StaleObjects[0].Reason
	}).WithContext(ctx).Should(Equal(reason))
}

// awaitSweeps waits for so many more complete sweeps.
func awaitSweeps(policy string, more int) {
	GinkgoHelper()
	swept := gauge("holdfast_node_sweeps_total", policy, "result", string(v1alpha1.ReasonSweepCompleted))
	Eventually(swept).Should(BeNumerically(">=", swept(Default)+float64(more)))
}
