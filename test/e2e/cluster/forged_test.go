// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"cmp"
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// stripped is a running pod whose finalizers a client removes, and which is then force-deleted while its node's kubelet is frozen. With the guard
// a policy refuses it; an administrator breaks the glass, and the pod is protected again.
func stripped(ctx context.Context, w *world, guarded bool) {
	w.forceDeletedWhileFrozen(ctx, guarded, func(old *corev1.Pod) {
		By("remove the finalizers of " + old.Name)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if guarded {
			Expect(admin.Patch(ctx, old.DeepCopy(), patch)).To(MatchError(ContainSubstring("ValidatingAdmissionPolicy 'holdfast-finalizer'")))
			patch = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"GivenUp: the guard is to protect it again"},"finalizers":null}}`))
		}
		Expect(admin.Patch(ctx, old.DeepCopy(), patch)).To(Succeed())
		if guarded {
			Eventually(func(g Gomega) {
				var live corev1.Pod
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(old), &live)).To(Succeed())
				g.Expect(live.Finalizers).To(ContainElement(v1alpha1.Finalizer))
			}).WithContext(ctx).Should(Succeed())
		}
	}, nothing)
}

// forgedReport is a pod on a frozen kubelet: the account of Multus reports its end as the kubelet's field manager.
func forgedReport(ctx context.Context, w *world, guarded bool) {
	w.forceDeletedWhileFrozen(ctx, guarded, nothing, func(old *corev1.Pod) {
		if !guarded {
			return
		}
		Eventually(w.isHeld(ctx, old)).WithContext(ctx).Should(BeTrue())
		kubelet := cmp.Or(platform(), "kubelet")
		By("report the end of " + old.Name + " with the account of Multus, as field manager " + kubelet)
		var live corev1.Pod
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(old), &live)).To(Succeed())
		live.Status.Phase = corev1.PodFailed
		err := multus().Status().Update(ctx, &live, client.FieldOwner(kubelet))
		Expect(apierrors.IsForbidden(err) || apierrors.IsInvalid(err)).To(BeTrue(), "the report is to be refused, but got: %v", err)
	})
}

// multus is a client with the account that every node has for Multus, which is a user here.
func multus() client.Client {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.Impersonate = rest.ImpersonationConfig{UserName: "holdfast:multus", Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}
