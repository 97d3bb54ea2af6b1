// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"slices"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// outcome is what becomes of a new pod in a namespace that is not excluded.
type outcome int

const (
	starts           outcome = iota // with no call
	startsAfterACall                // that failed
	startsProtected                 // by the policy, with no call
	isStopped                       // failurePolicy Fail
)

var installations = []struct {
	name       string
	components []string
	where      address
	// withNetworks and withoutNetworks are the outcomes of pods that name networks and of those that name none.
	withNetworks, withoutNetworks outcome
	labels                        Labels
}{
	{"default installation, whose manager's address refuses connections", nil, refuses, startsAfterACall, starts, nil},
	{"components fail-closed and guard-cluster-network, whose manager's address refuses connections",
		[]string{"fail-closed", "guard-cluster-network"}, refuses, isStopped, isStopped, nil},
	{"every component, whose manager's address swallows every call",
		components(), swallows, startsProtected, startsProtected, fixture.Needs(kubeversion.MutatingAdmissionPolicy)},
	{"every component but admission-policy-protection, whose manager's address swallows every call",
		components("admission-policy-protection"), swallows, isStopped, isStopped, fixture.Lacks(kubeversion.MutatingAdmissionPolicy)},
}

var _ = suite.Describe("No manager is alive:", func() {
	for _, tc := range installations {
		Context("the "+tc.name+":", tc.labels, Ordered, func() {
			var installed *installation
			var errorsBefore map[string]int

			BeforeAll(func(ctx context.Context) {
				errorsBefore = count(ctx, conditionErrors)
				installed = newInstallation(tc.where(), presets(), tc.components...)
				installed.install(ctx)
			}, NodeTimeout(startTimeout))

			AfterAll(func(ctx context.Context) {
				Expect(count(ctx, conditionErrors)).To(Equal(errorsBefore), "a match condition could not be computed")
			})

			It("a Node can register and stays Ready", nodeLives)
			It("tokens are reviewed, and namespaces and permissions can be made", clusterIsAdministered)
			It("a CNI agent makes its own node's objects, because the guard fails open, and writes them", func(ctx context.Context) { agentWritesItsOwn(ctx, 1) })
			It("operators make and write the objects of other nodes, because the guard fails open", func(ctx context.Context) {
				operatorsWrite(ctx, installed)
			})
			It("the objects of a Node that is gone can be deleted", objectsCanGo)
			It("the cluster's own network agents and add-ons get their pods", systemPodsStart)
			It("the manager itself can come back", managerComesBack)
			It("whereabouts hands out addresses", whereaboutsAdds)
			It("whereabouts can take addresses back, because the guard fails open", whereaboutsRemoves)
			It("the kubelet reports on guarded pods and ends them", kubeletReports)
			It("Holdfast can be repaired or removed", holdfastCanBeRepaired)
			It("pods that name no network start, unless every pod is guarded and the guard fails closed", func(ctx context.Context) {
				startPod(ctx, withoutNetworks, tc.withoutNetworks)
			})
			It("pods that name networks start, unless the guard fails closed", func(ctx context.Context) {
				startPod(ctx, withNetworks, tc.withNetworks)
			})
			It("pods on the node's own network start, with any networks in their annotations", func(ctx context.Context) {
				Expect(callsDuring(ctx, func() {
					pod := newPod(apps, withNetworks)
					pod.Spec.HostNetwork = true
					Expect(admin.Create(ctx, pod)).To(Succeed())
					Expect(pod.Finalizers).To(BeEmpty())
				})).To(BeEmpty())
			})
		})
	}
})

// nodeLives does what a kubelet does at its start and every ten seconds from then on.
func nodeLives(ctx context.Context) {
	m := newMachine()
	Expect(callsDuring(ctx, func() {
		m.register(ctx)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: m.name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: m.name, UID: m.uid}},
		}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &m.name}}
		Expect(m.kubelet.Create(ctx, lease)).To(Succeed())
		lease.Spec.LeaseDurationSeconds = new(int32(40))
		Expect(m.kubelet.Update(ctx, lease)).To(Succeed())
		Expect(m.kubelet.Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: m.name}})).To(Succeed())
		for _, ready := range []string{"False", "True"} {
			Expect(m.kubelet.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}, client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"Ready","status":"`+ready+`","reason":"Kubelet"}]}}`)))).To(Succeed())
		}
	})).To(BeEmpty())
}

func clusterIsAdministered(ctx context.Context) {
	Expect(callsDuring(ctx, func() {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "unknown"}}
		Expect(admin.Create(ctx, review)).To(Succeed())
		Expect(review.Status.Authenticated).To(BeFalse())
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-"}}
		Expect(admin.Create(ctx, namespace)).To(Succeed())
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "new"}}
		Expect(admin.Create(ctx, account)).To(Succeed())
		_, err := plane.ServiceAccountConfig(ctx, namespace.Name, account.Name, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(admin.Delete(ctx, namespace)).To(Succeed())
	})).To(BeEmpty())
}

// agentWritesItsOwn has the creation of each object cost so many calls, and its updates none.
func agentWritesItsOwn(ctx context.Context, calls int) {
	m := registered(ctx)
	agent, expected := m.agent(ctx), map[string]int{}
	Expect(callsDuring(ctx, func() {
		for _, preset := range []string{"ciliumnodes", "nodeinfo", "noderesourcetopologies", "hostsubnets"} {
			object := samples(m.name, m.uid)[preset]
			Expect(createWithStatus(ctx, agent, object)).To(Succeed(), preset)
			object.SetLabels(map[string]string{"written": "again"})
			Expect(agent.Update(ctx, object)).To(Succeed(), preset)
			if calls > 0 {
				expected[nodepolicy.EntryName(preset)] = calls
			}
		}
	})).To(Equal(expected))
}

func operatorsWrite(ctx context.Context, installed *installation) {
	m := registered(ctx)
	as := operator(ctx)
	expected := map[string]int{}
	Expect(callsDuring(ctx, func() {
		for _, preset := range []string{"nodenetworkconfigs", "cninodes"} {
			object := samples(m.name, m.uid)[preset]
			_, twoWrites := object.Object["status"]
			expected[nodepolicy.EntryName(preset)] = 1
			if twoWrites {
				expected[nodepolicy.EntryName(preset)] = 2
			}
			Expect(createWithStatus(ctx, as, object)).To(Succeed(), preset)
		}
	})).To(Equal(expected))
	Expect(installed.policies).To(HaveKey("nodenetworkconfigs"))
}

// objectsCanGo deletes a Node: the garbage collector deletes what it owned. A finalizer can be taken off then.
func objectsCanGo(ctx context.Context) {
	m := registered(ctx)
	agent := m.agent(ctx)
	object := samples(m.name, m.uid)["ciliumnodes"]
	object.SetFinalizers([]string{"example.com/clean-up"})
	Expect(agent.Create(ctx, object)).To(Succeed())
	Expect(callsDuring(ctx, func() {
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}})).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			g.Expect(object.GetDeletionTimestamp()).NotTo(BeNil())
		}).Should(Succeed())
		Expect(operator(ctx).Patch(ctx, object, jsonPatch(jsonpatch.NewOperation("remove", "/metadata/finalizers", nil)))).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})).To(BeEmpty())
}

// systemPodsStart lets the real DaemonSet controller make the pods of network agents, which may name networks themselves.
func systemPodsStart(ctx context.Context) {
	m := registered(ctx)
	labels := map[string]string{"agent": m.name}
	Expect(callsDuring(ctx, func() {
		Expect(admin.Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: m.name},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{networksAnnotation: string(withNetworks)}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent"}}},
			}},
		})).To(Succeed())
		var pods corev1.PodList
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &pods, client.InNamespace(system), client.MatchingLabels(labels))).To(Succeed())
			g.Expect(pods.Items).NotTo(BeEmpty())
		}).Should(Succeed())
		Expect(pods.Items).To(HaveEach(HaveField("Finalizers", BeEmpty())))
		Expect(admin.Create(ctx, newPod(system, withNetworks))).To(Succeed())
	})).To(BeEmpty())
}

// managerComesBack deletes the manager's pods; the real controllers make new ones.
func managerComesBack(ctx context.Context) {
	const replicas = 2
	manager := client.MatchingLabels{"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "manager"}
	var pods corev1.PodList
	Expect(callsDuring(ctx, func() {
		var old []types.UID
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &pods, client.InNamespace(own), manager)).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(replicas))
		}).Should(Succeed())
		for _, pod := range pods.Items {
			old = append(old, pod.UID)
		}
		Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(own), manager)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &pods, client.InNamespace(own), manager)).To(Succeed())
			fresh := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return slices.Contains(old, pod.UID) })
			g.Expect(fresh).To(HaveLen(replicas))
			g.Expect(fresh).To(HaveEach(HaveField("Finalizers", BeEmpty())))
		}).Should(Succeed())
	})).To(BeEmpty())
}

// whereaboutsAdds writes what a CNI ADD does: an entry, its reservation, and another sandbox for the same pod.
func whereaboutsAdds(ctx context.Context) {
	m := registered(ctx)
	agent := m.agent(ctx)
	pool := newPool(m.name)
	Expect(callsDuring(ctx, func() {
		Expect(agent.Create(ctx, pool)).To(Succeed())
		Expect(agent.Patch(ctx, pool, jsonPatch(jsonpatch.NewOperation("add", "/spec/allocations/2",
			wbv1alpha1.IPAllocation{ContainerID: "sandbox-2", PodRef: "apps/pod-2", IfName: "net1"})))).To(Succeed())
		Expect(agent.Patch(ctx, pool, jsonPatch(jsonpatch.NewOperation("replace", "/spec/allocations/2/id", "sandbox-3")))).To(Succeed())
		Expect(agent.Create(ctx, newReservation(m.name))).To(Succeed())
	})).To(BeEmpty())
	Expect(pool.Spec.Allocations).To(And(HaveLen(2), HaveKeyWithValue("2", HaveField("ContainerID", "sandbox-3"))))
}

func whereaboutsRemoves(ctx context.Context) {
	m := registered(ctx)
	agent := m.agent(ctx)
	pool := newPool(m.name)
	Expect(agent.Create(ctx, pool)).To(Succeed())
	Expect(agent.Create(ctx, newReservation(m.name))).To(Succeed())
	Expect(callsDuring(ctx, func() {
		Expect(agent.Patch(ctx, pool, jsonPatch(jsonpatch.NewOperation("remove", "/spec/allocations/1", nil)))).To(Succeed())
		Expect(agent.Delete(ctx, newReservation(m.name))).To(Succeed())
	})).To(Equal(map[string]int{poolWebhook: 1, reserved: 1}))
	Expect(pool.Spec.Allocations).To(BeEmpty())
}

func kubeletReports(ctx context.Context) {
	m := registered(ctx)
	pod := protected(newPod(apps, withNetworks))
	pod.Spec.NodeName = m.name
	Expect(callsDuring(ctx, func() {
		Expect(admin.Create(ctx, pod)).To(Succeed())
		Eventually(ctx, func() error {
			return m.kubelet.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`)))
		}).Should(Succeed())
		Expect(m.kubelet.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		By("the administrator unholding the pod without the manager, as the README describes")
		Expect(admin.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"GivenUp: the spec is over"},"finalizers":null}}`)))).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})).To(BeEmpty())
}

// holdfastCanBeRepaired writes what an administrator would, and what the manager and cert-manager write.
func holdfastCanBeRepaired(ctx context.Context) {
	m := newMachine()
	Expect(callsDuring(ctx, func() {
		policy := presets()["ciliumnodes"].DeepCopy()
		policy.Name = m.name
		Expect(admin.Create(ctx, policy)).To(Succeed())
		policy.Spec.Action = v1alpha1.PolicyWarn
		Expect(admin.Update(ctx, policy)).To(Succeed())
		Expect(admin.Delete(ctx, policy)).To(Succeed())
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "holdfast-manager"}}
		Expect(admin.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"repaired":"yes"}}}`)))).To(Succeed())
		Expect(admin.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: m.name}})).To(Succeed())
		manager := fixture.As("system:serviceaccount:" + own + ":holdfast-manager")
		Expect(manager.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: m.name}})).To(Succeed())
	})).To(BeEmpty())
}

func startPod(ctx context.Context, named networks, expected outcome) {
	GinkgoHelper()
	var err error
	pod := newPod(apps, named)
	calls := callsDuring(ctx, func() { err = admin.Create(ctx, pod) })
	if expected == isStopped {
		Expect(err).To(MatchError(ContainSubstring(`failed calling webhook "` + protectionWebhook + `"`)))
		Expect(calls).To(Equal(map[string]int{protectionWebhook: 1}))
		By("excluding a namespace")
		opened := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "opened-", Labels: map[string]string{"holdfast.dev/guard": "off"}}}
		Expect(admin.Create(ctx, opened)).To(Succeed())
		Eventually(ctx, func() error { return admin.Create(ctx, newPod(opened.Name, named)) }).Should(Succeed())
		return
	}
	Expect(err).NotTo(HaveOccurred())
	if expected == startsAfterACall {
		Expect(calls).To(Equal(map[string]int{protectionWebhook: 1}))
	} else {
		Expect(calls).To(BeEmpty())
	}
	if expected == startsProtected {
		Expect(pod.Finalizers).To(ConsistOf(v1alpha1.Finalizer))
	} else {
		Expect(pod.Finalizers).To(BeEmpty())
	}
}
