// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const foreignFinalizer = "example.com/foreign"

var _ = Describe("Others in the cluster", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("takes off its own finalizer only", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1, func(p *corev1.Pod) { p.Finalizers = append([]string{foreignFinalizer}, p.Finalizers...) })
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(finalizersOf(ctx, pod)).Should(ConsistOf(foreignFinalizer))
		Expect(w.entries(ctx)).To(BeEmpty())
		Eventually(recorded(ctx, string(pod.UID))).Should(BeFalse())
		Consistently(finalizersOf(ctx, pod)).Should(ConsistOf(foreignFinalizer))
		removeFinalizers(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("goes through pods/status where somebody's admission makes every patch of the pod fail (kubernetes#109164)", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		breakPodUpdates(ctx, w.namespace)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I3: lets a namesake have its own address and its own end", func(ctx context.Context) {
		startManager(ctx, options{})
		first := w.run(ctx, "web-0", 1)
		Expect(admin.Delete(ctx, first)).To(Succeed())
		kubeletFinishes(ctx, first)
		Eventually(exists(ctx, first)).Should(BeFalse())
		second := w.run(ctx, "web-0", 1)
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		Expect(admin.Delete(ctx, second)).To(Succeed())
		kubeletFinishes(ctx, second)
		Eventually(exists(ctx, second)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I3: calls it a conflict when a namesake inherits the address of a pod that was never shown to be gone", func(ctx context.Context) {
		startManager(ctx, options{})
		first := w.run(ctx, "web-0", 1)
		forceDelete(ctx, first)
		removeFinalizers(ctx, first) // somebody's hand: the one way around the guard
		Eventually(exists(ctx, first)).Should(BeFalse())
		second := w.create(ctx, "web-0")
		w.add(ctx, second, 1, sandboxOf(second, 1))
		w.showStatus(ctx, second, 1)
		Eventually(stateOf(ctx, string(second.UID))).Should(Equal(v1alpha1.StateConflict))
		Eventually(stateOf(ctx, string(first.UID))).Should(Equal(v1alpha1.StateConflict))
		Expect(admin.Delete(ctx, second)).To(Succeed())
		kubeletFinishes(ctx, second)
		Eventually(condition(ctx, second)).Should(Equal(string(v1alpha1.ReasonConflict)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))

		By("fencing the node, which proves the first one gone")
		w.setReady(ctx, corev1.ConditionUnknown)
		w.taintOutOfService(ctx)
		Eventually(exists(ctx, second)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
		Eventually(recorded(ctx, string(first.UID))).Should(BeFalse())
	})

	It("lets a namespace be deleted with its pods", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
		Eventually(func(g Gomega) {
			var live corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
			g.Expect(live.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, key("", w.namespace), &corev1.Namespace{}))
		}).Should(BeTrue())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("shares a Job's pods with the Job controller's own finalizer", func(ctx context.Context) {
		startManager(ctx, options{})
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "job"},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.Finalizer},
				Labels: map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}},
				Spec: func() corev1.PodSpec { s := w.podOf("").Spec; s.RestartPolicy = corev1.RestartPolicyNever; return s }()}}}
		Expect(admin.Create(ctx, job)).To(Succeed())
		var pods corev1.PodList
		Eventually(func(g Gomega) {
			g.Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(1))
		}).Should(Succeed())
		pod := &pods.Items[0]
		Expect(pod.Finalizers).To(ConsistOf(v1alpha1.Finalizer, batchv1.JobTrackingFinalizer))
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		w.showStatus(ctx, pod, 1)
		w.awaitRecord(ctx, pod)
		kubeletWrites(ctx, pod, corev1.PodSucceeded, "")
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.Status.Succeeded).To(BeEquivalentTo(1))
		}).Should(Succeed())
		Expect(admin.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("puts the label back on a pod that lost it, and does not take it for gone", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		patch := []byte(`{"metadata":{"labels":{"` + v1alpha1.GuardedLabel + `":null}}}`)
		Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		Eventually(func(g Gomega) {
			var live corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
			g.Expect(live.Labels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))
		}).Should(Succeed())
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		Consistently(recorded(ctx, string(pod.UID))).Should(BeTrue())
	})

	It("finds a pod that lost its label before anything was recorded, by its finalizer", func(ctx context.Context) {
		pod := w.create(ctx, "web", func(p *corev1.Pod) { p.Labels = nil })
		startManager(ctx, options{})
		Eventually(func(g Gomega) {
			var live corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
			g.Expect(live.Labels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))
		}).Should(Succeed())
	})

	It("stamps late a pod that holds an address and that the webhook missed", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "missed", func(p *corev1.Pod) { p.Labels, p.Finalizers = nil, nil })
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		Eventually(finalizersOf(ctx, pod)).Should(ConsistOf(v1alpha1.Finalizer))
		w.showStatus(ctx, pod, 1)
		w.awaitRecord(ctx, pod)
	})

	It("stamps late the pods that were there before the manager", func(ctx context.Context) {
		pod := w.create(ctx, "older", func(p *corev1.Pod) { p.Labels, p.Finalizers = nil, nil })
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		startManager(ctx, options{})
		Eventually(finalizersOf(ctx, pod)).Should(ConsistOf(v1alpha1.Finalizer))
	})

	It("does not stamp late a pod that opted out", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "out", func(p *corev1.Pod) {
			p.Labels, p.Finalizers = nil, nil
			p.Annotations[v1alpha1.GuardAnnotation] = v1alpha1.GuardAnnotationOff
		})
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		Consistently(finalizersOf(ctx, pod)).Should(BeEmpty())
	})

	It("takes the stamp off a running pod none of whose networks is guarded", func(ctx context.Context) {
		startManager(ctx, options{})
		definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "net"},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"0.3.1","type":"bridge","ipam":{"type":"host-local"}}`}}
		Expect(admin.Create(ctx, definition)).To(Succeed())
		pod := w.create(ctx, "unguarded", func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, foreignFinalizer) })
		Consistently(finalizersOf(ctx, pod)).Should(ContainElement(v1alpha1.Finalizer), "its ADD may not be done yet")
		w.showStatus(ctx, pod, 1)
		kubeletWrites(ctx, pod, corev1.PodRunning, "")
		Eventually(finalizersOf(ctx, pod)).Should(ConsistOf(foreignFinalizer))
		var live corev1.Pod
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
		Expect(live.Labels).NotTo(HaveKey(v1alpha1.GuardedLabel))
	})

	It("keeps the stamp on a running pod with a network that is guarded, or that nobody knows", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "unknown")
		w.showStatus(ctx, pod, 1)
		kubeletWrites(ctx, pod, corev1.PodRunning, "")
		Consistently(finalizersOf(ctx, pod)).Should(ConsistOf(v1alpha1.Finalizer))
	})

	It("I5: records an entry whose owner nobody can tell, and holds it", func(ctx context.Context) {
		startManager(ctx, options{})
		ghost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ghost", UID: types.UID("ghost-" + w.namespace)}}
		w.add(ctx, ghost, 1, sandboxOf(ghost, 1))
		name := v1alpha1.OrphanPrefix + sandboxOf(ghost, 1)
		Eventually(recorded(ctx, name)).Should(BeTrue())
		Eventually(stateOf(ctx, name)).Should(Equal(v1alpha1.StateOrphaned))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		w.del(ctx, 1)
		Eventually(recorded(ctx, name)).Should(BeFalse())
	})
})

func stateOf(ctx context.Context, name string) func() (v1alpha1.AllocationState, error) {
	return func() (v1alpha1.AllocationState, error) {
		var record v1alpha1.IPAllocation
		err := admin.Get(ctx, key("", name), &record)
		return record.Status.State, client.IgnoreNotFound(err)
	}
}

func finalizersOf(ctx context.Context, pod *corev1.Pod) func() ([]string, error) {
	return func() ([]string, error) {
		var live corev1.Pod
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
		return live.Finalizers, err
	}
}

func removeFinalizers(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	Expect(client.IgnoreNotFound(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))).To(Succeed())
}

// breakPodUpdates installs what the field has seen: an admission step that changes the spec on every pod update, which the API
// server then refuses. pods/status is not matched.
func breakPodUpdates(ctx context.Context, namespace string) {
	GinkgoHelper()
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "break-" + namespace},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			FailurePolicy:      new(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}},
			},
			Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{spec: Object.spec{hostname: "changed"}}`}}},
		},
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy.Name}}
	Expect(admin.Create(ctx, policy)).To(Succeed())
	Expect(admin.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(admin.Delete(ctx, binding)).To(Succeed())
		Expect(admin.Delete(ctx, policy)).To(Succeed())
	})
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}}}
	Expect(admin.Create(ctx, probe)).To(Succeed())
	Eventually(func() bool {
		err := admin.Patch(ctx, probe.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`)))
		return apierrors.IsInvalid(err)
	}).Should(BeTrue(), "the policy does not break pod updates")
}
