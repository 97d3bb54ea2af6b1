// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

var _ = suite.Describe("Letting go of a pod by hand, while no manager runs", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })
	unhold := func(ctx context.Context, name, why string) result {
		GinkgoHelper()
		return plugin(ctx, "unhold", "pod/"+name, "-n", w.namespace, "--reason", why)
	}

	It("writes an event with user and reason, and takes the finalizer off against the policy", func(ctx context.Context) {
		pod := w.create(ctx, "web-0")
		r := unhold(ctx, "web-0", reason)
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(ContainSubstring("is not being deleted"))

		reportRunning(ctx, pod)
		forceDelete(ctx, pod)
		stripped := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		withReason := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"INC-1"},"finalizers":null}}`))
		for _, patch := range []client.Patch{stripped, withReason} {
			Expect(admin.Patch(ctx, pod.DeepCopy(), patch)).To(MatchError(ContainSubstring("kubectl holdfast unhold pod/web-0 -n " + w.namespace)))
		}
		Expect(unhold(ctx, "web-0", "because").code).To(Equal(5), "the reason says nothing")
		Expect(noted(ctx, v1alpha1.ReasonProtectionRemovedByUser)).NotTo(ContainElement(ContainSubstring(string(pod.UID))))

		r = unhold(ctx, "web-0", reason)
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})).To(Satisfy(apierrors.IsNotFound))
		Expect(noted(ctx, v1alpha1.ReasonProtectionRemovedByUser)).To(ContainElement(
			And(HavePrefix("admin takes the finalizer"), ContainSubstring(string(pod.UID)), HaveSuffix(reason))))
	}, SpecTimeout(specTimeout))

	It("keeps the pod's address from the next pod of the name before it lets the pod go", func(ctx context.Context) {
		stop := startManager(ctx)
		pod := w.run(ctx, "web-0", 1)
		stop()
		forceDelete(ctx, pod)
		r := unhold(ctx, "web-0", reason)
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(ContainSubstring(w.ip(1) + " of pool"))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})).To(Satisfy(apierrors.IsNotFound))
		Expect(w.entries(ctx)["1"]).To(And(HaveField("PodRef", v1alpha1.TombstonePrefix+"/"+string(pod.UID)), HaveField("ContainerID", story.SandboxOf(pod))))
	}, SpecTimeout(specTimeout))

	It("writes the tombstone as the manager where the component refuse-foreign-removals refuses it to others", func(ctx context.Context) {
		stop := startManager(ctx)
		pod := w.run(ctx, "web-0", 1)
		stop()
		forceDelete(ctx, pod)
		w.refuseForeignRemovals(ctx)
		r := unhold(ctx, "web-0", reason)
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(And(ContainSubstring("component refuse-foreign-removals"), ContainSubstring("The finalizer stays")))
		r = plugin(ctx, "unhold", "pod/web-0", "-n", w.namespace, "--reason", reason, "--as-manager")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})).To(Satisfy(apierrors.IsNotFound))
		Expect(w.entries(ctx)["1"]).To(HaveField("PodRef", v1alpha1.TombstonePrefix+"/"+string(pod.UID)))
	}, SpecTimeout(specTimeout))

	It("unholds a pod whose address cannot be kept only with --force, and says so in the pod", func(ctx context.Context) {
		pod := w.create(ctx, "web-0")
		w.add(ctx, 1, pod.Namespace+"/"+pod.Name, story.SandboxOf(pod)) // no manager has recorded it
		pod.Finalizers = append(pod.Finalizers, "example.com/other")
		Expect(admin.Update(ctx, pod)).To(Succeed())
		forceDelete(ctx, pod)
		r := unhold(ctx, "web-0", reason)
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(And(ContainSubstring("the pod's record does not have "+w.ip(1)), ContainSubstring("--force removes it all the same")))
		r = plugin(ctx, "unhold", "pod/web-0", "-n", w.namespace, "--reason", reason, "--force")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.Finalizers).To(ConsistOf("example.com/other"))
		Expect(pod.Annotations).To(HaveKeyWithValue(v1alpha1.UnholdAnnotation, "GivenUp: "+reason))
		Expect(admin.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("takes --force while an ADD may still get the pod an address, which nothing can keep", func(ctx context.Context) {
		pod := w.create(ctx, "web-0")
		forceDelete(ctx, pod)
		r := unhold(ctx, "web-0", reason)
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(And(ContainSubstring("an ADD may still get an address for it"), ContainSubstring("--force removes it all the same")))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		r = plugin(ctx, "unhold", "pod/web-0", "-n", w.namespace, "--reason", reason, "--force")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Satisfy(apierrors.IsNotFound))
	}, SpecTimeout(specTimeout))

	It("goes through pods/status where something refuses every update of the pod, and says what stays where that is refused too", func(ctx context.Context) {
		pod := w.create(ctx, "web-0")
		reportRunning(ctx, pod)
		forceDelete(ctx, pod)
		mend := fixture.RefusePodUpdates(ctx, w.namespace, "pods", "pods/status")
		r := unhold(ctx, "web-0", reason)
		Expect(r.code).To(Equal(1), r.out+r.err)
		Expect(r.err).To(And(ContainSubstring("broken on purpose"), ContainSubstring("through pods/status"), ContainSubstring("the finalizer stays")))
		mend(ctx)
		fixture.RefusePodUpdates(ctx, w.namespace, "pods")
		r = unhold(ctx, "web-0", reason)
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Satisfy(apierrors.IsNotFound))
	}, SpecTimeout(specTimeout))

	It("works in a namespace that is being deleted, where no event can be created", func(ctx context.Context) {
		pod := w.create(ctx, "web-0")
		reportRunning(ctx, pod)
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
		forceDelete(ctx, pod)
		r := unhold(ctx, "web-0", reason)
		Expect(r.code).To(BeZero(), r.out+r.err)
		var events corev1.EventList
		Expect(admin.List(ctx, &events, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		Expect(events.Items).To(ContainElement(And(HaveField("Reason", string(v1alpha1.ReasonProtectionRemovedByUser)),
			HaveField("InvolvedObject.Kind", "Namespace"), HaveField("InvolvedObject.Name", w.namespace), HaveField("Message", ContainSubstring(string(pod.UID))))))
	}, SpecTimeout(specTimeout))
})
