// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("What is read", Ordered, func() {
	var w *world
	BeforeAll(func(ctx context.Context) { startManager(ctx) })
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("is healthy: a pod uses its address", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)

		By("explain")
		r := plugin(ctx, "explain", "pod/web-0", "-n", w.namespace)
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(BeZero(), r.err)

		By("who")
		r = plugin(ctx, "who", w.ip(1))
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(BeZero(), r.err)

		By("history")
		page := filepath.Join(GinkgoT().TempDir(), "page.html")
		r = plugin(ctx, "history", w.ip(1), "--html", page)
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(BeZero(), r.err)
		content, err := os.ReadFile(page)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(ContainSubstring(string(pod.UID)))

		By("audit")
		r = plugin(ctx, "audit")
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(BeZero(), r.out+r.err)
	}, SpecTimeout(specTimeout))

	It("is broken: the node of a deleted pod is unreachable", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)
		w.setNode(ctx, func(node *corev1.Node) { setReady(node, corev1.ConditionUnknown) })
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
		r := plugin(ctx, "explain", "pod/web-0", "-n", w.namespace)
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(Equal(2), r.err)
		r = plugin(ctx, "explain", string(pod.UID), "-o", "json")
		Expect(r.code).To(Equal(2), r.err)
		Expect(decoded(r)["items"]).To(HaveLen(1))
		r = plugin(ctx, "who", w.ip(1), "-o", "wide")
		GinkgoWriter.Println(text(r.out))
		r = plugin(ctx, "history", w.ip(1))
		GinkgoWriter.Println(text(r.out))
		r = plugin(ctx, "audit", "-o", "yaml")
		GinkgoWriter.Println(text(r.out))
	}, SpecTimeout(specTimeout))

	It("is broken: an entry has no pod behind it", func(ctx context.Context) {
		w.run(ctx, "web-0", 1)
		w.add(ctx, 2, w.namespace+"/gone-0", "sandbox-of-nobody")
		awaitReason(ctx, "orphan-sandbox-of-nobody", v1alpha1.ReasonOwnerUnknown)
		r := plugin(ctx, "explain", "ipa/orphan-sandbox-of-nobody")
		GinkgoWriter.Println(text(r.out))
		r = plugin(ctx, "audit")
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(Equal(2), r.out+r.err)
	}, SpecTimeout(specTimeout))

	It("is broken: two pods show one address", func(ctx context.Context) {
		w.run(ctx, "web-0", 1)
		other := w.create(ctx, "web-1")
		w.show(ctx, other, 1)
		w.phase(ctx, other, corev1.PodRunning, "kubelet")
		r := plugin(ctx, "who", w.ip(1))
		GinkgoWriter.Println(text(r.out))
		r = plugin(ctx, "audit")
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(Equal(2), r.out+r.err)
	}, SpecTimeout(specTimeout))
})
