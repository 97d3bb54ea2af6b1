// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

const exempt = "system:serviceaccount:kube-system:operator"

var (
	ciliumNodes        = nodepolicy.EntryName("ciliumnodes")
	nodeNetworkConfigs = nodepolicy.EntryName("nodenetworkconfigs")
)

// stoppedBy is the error of a write that failurePolicy Fail stopped.
func stoppedBy(webhook string) gomegatypes.GomegaMatcher {
	return MatchError(ContainSubstring(`failed calling webhook "` + webhook + `"`))
}

var _ = Describe("Every preset has failurePolicy Fail, and no manager is alive:", Ordered, func() {
	BeforeAll(func(ctx context.Context) {
		policies := presets()
		for _, policy := range policies {
			policy.Spec.Action, policy.Spec.FailurePolicy = v1alpha1.PolicyDeny, v1alpha1.PolicyFail
		}
		policies["nodeinfo"].Spec.ExemptUsers = []string{exempt}
		newInstallation(refuses(), policies).install(ctx)
	}, NodeTimeout(startTimeout))

	AfterAll(func(ctx context.Context) { Expect(count(ctx, conditionErrors)).To(BeEmpty()) })

	It("a Node can register and stays Ready", nodeLives)
	It("tokens are reviewed, and namespaces and permissions can be made", clusterIsAdministered)
	It("a node's own agent makes and writes its objects, so the node gets its network", agentWritesItsOwn)
	It("the objects of a Node that is gone can be deleted", objectsCanGo)
	It("the cluster's own network agents and add-ons get their pods", systemPodsStart)
	It("the manager itself can come back", managerComesBack)
	It("Holdfast can be repaired or removed", holdfastCanBeRepaired)
	It("whereabouts hands out addresses", whereaboutsAdds)

	It("a write for a node by somebody whose token is not of it is stopped: that is what was asked for", func(ctx context.Context) {
		m, other := registered(ctx), registered(ctx)
		Expect(operator(ctx).Create(ctx, samples(m.name, m.uid)["nodenetworkconfigs"])).To(stoppedBy(nodeNetworkConfigs))
		Expect(other.agent(ctx).Create(ctx, samples(m.name, m.uid)["ciliumnodes"])).To(stoppedBy(ciliumNodes))
		Expect(admin.Create(ctx, samples(m.name, m.uid)["ciliumnodes"])).To(stoppedBy(ciliumNodes))
		By("an object of the node that carries the writer's own Node")
		foreign := samples(other.name, other.uid)["ciliumnodes"]
		foreign.SetName(m.name)
		Expect(other.agent(ctx).Create(ctx, foreign)).To(stoppedBy(ciliumNodes))
	})

	It("a status that a node's object gets from somebody else is stopped too", func(ctx context.Context) {
		m := registered(ctx)
		object := samples(m.name, m.uid)["ciliumnodes"]
		status := object.DeepCopy().Object["status"]
		Expect(m.agent(ctx).Create(ctx, object)).To(Succeed())
		object.Object["status"] = status
		Expect(operator(ctx).Status().Update(ctx, object.DeepCopy())).To(stoppedBy(ciliumNodes))
		Expect(m.agent(ctx).Status().Update(ctx, object)).To(Succeed())
	})

	It("an agent whose object carries the UID of a Node that is gone is stopped", func(ctx context.Context) {
		m := registered(ctx)
		Expect(m.agent(ctx).Create(ctx, samples(m.name, types.UID("11111111-1111-1111-1111-111111111111"))["ciliumnodes"])).To(stoppedBy(ciliumNodes))
	})

	It("an agent whose Node was replaced under its name is stopped at the old object", func(ctx context.Context) {
		m := registered(ctx)
		object := samples(m.name, m.uid)["ciliumnodes"]
		Expect(m.agent(ctx).Create(ctx, object)).To(Succeed())
		By("the garbage collector being slow")
		Expect(plane.ControllerManager().Pause()).To(Succeed())
		DeferCleanup(func() { Expect(plane.ControllerManager().Resume()).To(Succeed()) })
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}})).To(Succeed())
		stale := m.uid
		m.register(ctx)
		Expect(m.uid).NotTo(Equal(stale))
		Expect(m.agent(ctx).Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))).To(stoppedBy(ciliumNodes))
	})

	It("a Node that is deleted without its objects waits for the manager, or until its objects are deleted", func(ctx context.Context) {
		m := registered(ctx)
		object := samples(m.name, m.uid)["ciliumnodes"]
		Expect(m.agent(ctx).Create(ctx, object)).To(Succeed())
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
		before := count(ctx, requests)[ciliumNodes]
		Expect(admin.Delete(ctx, node, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, func() int { return count(ctx, requests)[ciliumNodes] }).
			Should(BeNumerically(">", before), "the garbage collector takes the reference off the object")
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		Expect(admin.Delete(ctx, object)).To(Succeed())
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(node), node) }).
			Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})

	It("exempt users are not stopped", func(ctx context.Context) {
		m := registered(ctx)
		Expect(operator(ctx).Create(ctx, samples(m.name, m.uid)["nodeinfo"])).To(Succeed())
	})

	It("an object that speaks for no node is not stopped", func(ctx context.Context) {
		m := registered(ctx)
		block := samples(m.name, m.uid)["ipamblocks"]
		block.SetName(m.name)
		block.Object["spec"].(map[string]any)["affinity"] = "virtual:load-balancer"
		Expect(operator(ctx).Create(ctx, block)).To(Succeed())
	})

	It("pods start", func(ctx context.Context) {
		startPod(ctx, withoutNetworks, starts)
		startPod(ctx, withNetworks, startsAfterACall)
	})
})
