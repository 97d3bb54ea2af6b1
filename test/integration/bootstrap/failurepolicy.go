// SPDX-License-Identifier: Apache-2.0

package bootstrap

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

var (
	ciliumNodes        = nodepolicy.EntryName("ciliumnodes")
	nodeNetworkConfigs = nodepolicy.EntryName("nodenetworkconfigs")
)

// stoppedBy is the error of a write that failurePolicy Fail stopped.
func stoppedBy(webhook string) gomegatypes.GomegaMatcher {
	return MatchError(ContainSubstring(`failed calling webhook "` + webhook + `"`))
}

var _ = suite.Describe("Every preset has failurePolicy Fail, and no manager is alive:", Ordered, func() {
	var errorsBefore map[string]int
	BeforeAll(func(ctx context.Context) {
		errorsBefore = count(ctx, conditionErrors)
		policies := presets()
		for _, policy := range policies {
			policy.Spec.Action, policy.Spec.FailurePolicy = v1alpha1.PolicyDeny, v1alpha1.PolicyFail
		}
		newInstallation(refuses(), policies).install(ctx)
	}, NodeTimeout(startTimeout))

	AfterAll(func(ctx context.Context) { Expect(count(ctx, conditionErrors)).To(Equal(errorsBefore)) })

	It("a Node can register and stays Ready", nodeLives)
	It("a node's own agent makes and writes its objects, so the node gets its network", func(ctx context.Context) { agentWritesItsOwn(ctx, 0) })
	It("the objects of a Node that is gone can be deleted", objectsCanGo)
	It("the manager itself can come back", managerComesBack)
	It("Holdfast can be repaired or removed", holdfastCanBeRepaired)

	It("a write for a node by a client with another node's token is stopped: the policy is configured to", func(ctx context.Context) {
		m, other := registered(ctx), registered(ctx)
		Expect(operator(ctx).Create(ctx, samples(m.name, m.uid)["nodenetworkconfigs"])).To(stoppedBy(nodeNetworkConfigs))
		Expect(other.agent(ctx).Create(ctx, samples(m.name, m.uid)["ciliumnodes"])).To(stoppedBy(ciliumNodes))
		Expect(admin.Create(ctx, samples(m.name, m.uid)["ciliumnodes"])).To(stoppedBy(ciliumNodes))
		By("an object of the node that carries the writer's own Node")
		foreign := samples(other.name, other.uid)["ciliumnodes"]
		foreign.SetName(m.name)
		Expect(other.agent(ctx).Create(ctx, foreign)).To(stoppedBy(ciliumNodes))
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
})
