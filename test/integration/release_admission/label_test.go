// SPDX-License-Identifier: Apache-2.0

package release_admission_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("The label of a guarded pod", Ordered, func() {
	const (
		unlabel   = `{"metadata":{"labels":{"holdfast.dev/guarded":null}}}`
		relabel   = `{"metadata":{"labels":{"holdfast.dev/guarded":"false"}}}`
		unprotect = `{"metadata":{"labels":{"holdfast.dev/guarded":null},"finalizers":["` + holder + `"]}}`
	)
	patch := func(ctx context.Context, pod *corev1.Pod, data string) error {
		return admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(data)))
	}
	beRefused := And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("holdfast.dev/guarded=true stays")))

	BeforeAll(func(ctx SpecContext) {
		content, err := os.ReadFile(filepath.Join(repository, "config/webhook/label-policy.yaml"))
		Expect(err).NotTo(HaveOccurred())
		create(ctx, content)
		probe := newPod(ctx, nodeA, guarded)
		Eventually(func(g Gomega) { // until the API server has compiled the policy
			g.Expect(admin.Patch(ctx, probe.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(unlabel)), client.DryRunAll)).To(beRefused)
		}).Should(Succeed())
	})

	It("stays while the finalizer does, through pods and through pods/status", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA, guarded)
		Expect(patch(ctx, pod, unlabel)).To(beRefused)
		Expect(patch(ctx, pod, relabel)).To(beRefused)
		status := client.RawPatch(types.MergePatchType, []byte(unlabel))
		Expect(admin.Status().Patch(ctx, pod.DeepCopy(), status)).To(beRefused)
	})

	It("goes together with the finalizer", func(ctx SpecContext) {
		Expect(patch(ctx, newPod(ctx, nodeA, guarded), unprotect)).To(Succeed())
	})

	It("keeps nobody from other labels, from the status, or from putting it right", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA, guarded)
		Expect(patch(ctx, pod, `{"metadata":{"labels":{"app":"web"}}}`)).To(Succeed())
		writePhase(ctx, pod, corev1.PodRunning, "kubelet", "")
		unlabeled := newPod(ctx, nodeA, func(pod *corev1.Pod) { guarded(pod); pod.Labels = nil })
		Expect(patch(ctx, unlabeled, `{"metadata":{"labels":{"holdfast.dev/guarded":"true"}}}`)).To(Succeed())
		wrong := newPod(ctx, nodeA, func(pod *corev1.Pod) { guarded(pod); pod.Labels["holdfast.dev/guarded"] = "maybe" })
		Expect(patch(ctx, wrong, `{"metadata":{"labels":{"holdfast.dev/guarded":"true"}}}`)).To(Succeed())
	})

	It("is nobody's business on a pod without the finalizer", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA, func(pod *corev1.Pod) { pod.Labels = map[string]string{"holdfast.dev/guarded": "true"} })
		Expect(patch(ctx, pod, unlabel)).To(Succeed())
	})
})
