// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
)

// unholding takes the finalizer off with a statement about the addresses and a reason.
func unholding(statement v1alpha1.UnholdStatement) string {
	return because(statement.Because("INC-1: the machine burnt down"))
}

func because(why string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"holdfast.dev/unhold":%q},"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`, why)
}

var _ = suite.Describe("The finalizer of a guarded pod", func() {
	// Each is refused by RBAC, by NodeRestriction or by the policy.
	actors := map[string]struct {
		account      account
		main, status string
	}{
		"a tenant with the role edit":      {func() client.Client { return tenant }, noRemoval, byRBAC},
		"Multus with its ClusterRole":      {func() client.Client { return multus }, noRemoval, noRemoval},
		"whereabouts with its ClusterRole": {func() client.Client { return whereabouts }, byRBAC, byRBAC},
		"flannel with its ClusterRole":     {func() client.Client { return flannel }, byRBAC, byRBAC},
		"the kubelet of its node":          {func() client.Client { return kubelet }, byRBAC, noRemoval},
		"the kubelet of another node":      {func() client.Client { return otherKubelet }, byRBAC, byNodeAdmission},
		"Holdfast's agent on the node":     {func() client.Client { return agentA }, byRBAC, byRBAC},
		"a cluster administrator":          {func() client.Client { return user }, noRemoval, noRemoval},
		"the collector of pods":            {func() client.Client { return podGC }, noRemoval, noRemoval},
	}
	pods := map[string]struct {
		make    func(context.Context, ...func(*corev1.Pod)) *corev1.Pod
		refusal string
	}{
		"a pod that is being deleted": {deletingPod, noRemoval},
		"a pod that lives":            {newPod, noLoss},
	}
	for which, of := range pods {
		for who, actor := range actors {
			It("is stripped from "+which+" by the manager only: "+who, func(ctx context.Context) {
				pod := of.make(ctx)
				for subresource, refusal := range map[string]string{itself: actor.main, inStatus: actor.status} {
					stripped := pod.DeepCopy()
					stripped.Finalizers = []string{foreign}
					write := func() error { return actor.account().Update(ctx, stripped) }
					if subresource == inStatus {
						write = func() error { return actor.account().Status().Update(ctx, stripped) }
					}
					if refusal == noRemoval {
						refusal = of.refusal
					}
					Expect(write()).To(refusedAs(finalizerPolicy, refusal), subresource)
				}
				Expect(live(ctx, pod).Finalizers).To(ConsistOf(foreign, v1alpha1.Finalizer))
			}, SpecTimeout(soon))
		}

		It("is taken off by the manager from "+which, func(ctx context.Context) {
			way, err := finalizer.Client{Writer: manager, Reader: manager}.Remove(ctx, named(of.make(ctx)))
			Expect(err).NotTo(HaveOccurred())
			Expect(way).To(Equal(finalizer.WayPatch))
		}, SpecTimeout(soon))
	}

	It("lets clients apply a manifest without finalizers, or remove the finalizer where it is not", func(ctx context.Context) {
		manifest := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
		apply := func(pod *corev1.Pod) error {
			content, err := json.Marshal(manifest)
			Expect(err).NotTo(HaveOccurred())
			target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			return tenant.Patch(ctx, target, client.RawPatch(types.ApplyPatchType, content), client.FieldOwner("kubectl"))
		}
		pod := newPod(ctx)
		Expect(apply(pod)).To(Succeed())
		Expect(live(ctx, pod).Finalizers).To(ConsistOf(foreign, v1alpha1.Finalizer))
		Expect(patchPod(ctx, tenant, newPod(ctx, func(pod *corev1.Pod) { pod.Finalizers = []string{foreign} }), itself, `{"metadata":{"finalizers":null}}`)).To(Succeed())
	}, SpecTimeout(soon))

	It("lets clients change the rest, or remove another finalizer", func(ctx context.Context) {
		pod := deletingPod(ctx)
		Expect(patchPod(ctx, tenant, pod, itself, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/foreign"],"labels":{"a":"b"}}}`)).To(Succeed())
		Expect(patchPod(ctx, kubelet, pod, inStatus, `{"status":{"phase":"Failed"}}`, client.FieldOwner("kubelet"))).To(Succeed())
		Expect(tenant.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		Expect(live(ctx, pod).Finalizers).To(ConsistOf(v1alpha1.Finalizer))
	}, SpecTimeout(soon))

	It("names in its refusal the one command for break-glass", func(ctx context.Context) {
		pod := deletingPod(ctx)
		Expect(patchPod(ctx, user, pod, itself, finalizerOff)).
			To(MatchError(ContainSubstring(fmt.Sprintf(`kubectl holdfast unhold pod/%s -n %s --reason "…"`, pod.Name, pod.Namespace))))
	}, SpecTimeout(soon))

	Context("with the break-glass annotation", func() {
		It("comes off for an account that may unhold, with a reason in the same write, and with the object where nothing else holds it", func(ctx context.Context) {
			pod := deletingPod(ctx, isGuarded)
			Expect(patchPod(ctx, tenant, pod, itself, unholding(v1alpha1.UnholdKept))).To(outcome(finalizerPolicy, noRemoval), "the role edit has not the verb")
			Expect(patchPod(ctx, user, pod, itself, unholding(v1alpha1.UnholdKept))).To(Succeed())
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Satisfy(apierrors.IsNotFound))
		}, SpecTimeout(soon))

		It("stays where the write does not say what becomes of the addresses, and why", func(ctx context.Context) {
			pod := deletingPod(ctx)
			for _, why := range []string{"  ", "INC-1: the machine burnt down", "Kept: ", "GivenUp:", "kept: INC-1", "Kept", ": INC-1"} {
				Expect(patchPod(ctx, user, pod, itself, because(why))).To(outcome(finalizerPolicy, noRemoval), why)
			}
			Expect(patchPod(ctx, user, pod, itself, unholding(v1alpha1.UnholdGivenUp))).To(Succeed())
		}, SpecTimeout(soon))

		It("comes off a pod that lives only where its addresses are given up: they cannot be kept", func(ctx context.Context) {
			pod := newPod(ctx)
			Expect(patchPod(ctx, user, pod, itself, unholding(v1alpha1.UnholdKept))).To(outcome(finalizerPolicy, noLoss))
			Expect(patchPod(ctx, tenant, pod, itself, unholding(v1alpha1.UnholdGivenUp))).To(outcome(finalizerPolicy, noLoss))
			Expect(patchPod(ctx, user, pod, itself, unholding(v1alpha1.UnholdGivenUp))).To(Succeed())
		}, SpecTimeout(soon))

		It("stays where the reason was there before, perhaps by a tenant", func(ctx context.Context) {
			pod := deletingPod(ctx)
			Expect(patchPod(ctx, tenant, pod, itself, `{"metadata":{"annotations":{"holdfast.dev/unhold":"Kept: prepared"}}}`)).To(Succeed())
			Expect(patchPod(ctx, user, pod, itself, finalizerOff)).To(outcome(finalizerPolicy, noRemoval))
			Expect(patchPod(ctx, user, pod, itself, because("Kept: prepared"))).To(outcome(finalizerPolicy, noRemoval))
			Expect(patchPod(ctx, user, pod, itself, unholding(v1alpha1.UnholdKept))).To(Succeed())
		}, SpecTimeout(soon))

		It("comes off for an account whose role has the verb and nothing else of Holdfast", func(ctx context.Context) {
			Expect(admin.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "unholder"},
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"ipallocations"}, Verbs: []string{v1alpha1.UnholdVerb}}}})).To(Succeed())
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "unholder"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "unholder"}}
			Expect(admin.Create(ctx, binding)).To(Succeed())
			other := deletingPod(ctx)
			DeferCleanup(func(ctx context.Context) {
				Expect(admin.Delete(ctx, binding)).To(Succeed())
				Eventually(ctx, func(ctx context.Context) error {
					return patchPod(ctx, tenant, other, itself, unholding(v1alpha1.UnholdKept), client.DryRunAll)
				}).Should(outcome(finalizerPolicy, noRemoval))
			}, NodeTimeout(soon))
			pod := deletingPod(ctx)
			Eventually(ctx, func() error { return patchPod(ctx, tenant, pod, itself, unholding(v1alpha1.UnholdKept)) }).Should(Succeed())
		}, SpecTimeout(soon))
	})

	It("does not keep the real controllers from deleting a namespace, and is removed by the manager", func(ctx context.Context) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ending-"}}
		Expect(admin.Create(ctx, namespace)).To(Succeed())
		pod := newPod(ctx, func(pod *corev1.Pod) {
			pod.Namespace, pod.OwnerReferences, pod.Finalizers = namespace.Name, nil, []string{v1alpha1.Finalizer}
		})
		Expect(admin.Delete(ctx, namespace)).To(Succeed())
		Eventually(ctx, func() *metav1.Time { return live(ctx, pod).DeletionTimestamp }).ShouldNot(BeNil())
		Expect(patchPod(ctx, kubelet, pod, inStatus, `{"status":{"phase":"Succeeded"}}`, client.FieldOwner("kubelet"))).To(Succeed())
		Expect(kubelet.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
		_, err := finalizer.Client{Writer: manager, Reader: manager}.Remove(ctx, named(pod))
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(namespace), namespace) }).Should(Satisfy(apierrors.IsNotFound))
	}, SpecTimeout(soon))
})
