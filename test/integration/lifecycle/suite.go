// SPDX-License-Identifier: Apache-2.0

// Package lifecycle runs the manager's controllers, under its real RBAC identity, beside the real controller manager. Its specs show what only
// those can show; the decisions about a pod are proven by unit tests and by hack/dev/test/sim.
package lifecycle

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

// podGCSoon bounds PodGC: a round every 20 s after a quarantine of 40 s.
const podGCSoon = 3 * time.Minute

var (
	admin = fixture.Admin

	suite = fixture.NewSuite("lifecycle", fixture.PlaneOne, func(ctx context.Context) {
		fixture.CreateNamespace(ctx, story.ManagerNamespace)
		fixture.Apply(ctx, fixture.Folder("config/rbac").Objects())
	})
)

// One manager sees all of these pods. PodGC acts a minute after a Node is gone, so that its story begins first and is judged last.
var _ = suite.Describe("Guarded pods beside Kubernetes' own controllers", Ordered, func() {
	var (
		counted   *writes
		collected *story.World
		orphaned  *corev1.Pod
		w         *story.World
	)

	BeforeAll(func(ctx context.Context) {
		counted = &writes{}
		story.Manager{Transport: counted.wrap, Configure: func(c *configv1alpha1.ManagerConfiguration) {
			c.Delays.GracePeriodSlack = &metav1.Duration{Duration: fixture.Soon} // a pod that ends within it gets no status
		}}.Start(ctx)
		collected = story.New(ctx)
		orphaned = collected.Running(ctx, "web")
		collected.Node.Deregister(ctx)
	})

	BeforeEach(func(ctx context.Context) { w = story.New(ctx) })

	It("costs a record and one patch in the ordinary case, and no status", func(ctx context.Context) {
		pod := w.Running(ctx, "web")
		record := story.RecordOf(ctx, pod)
		Expect(record.Spec.IPs).To(HaveExactElements(record.Spec.Addresses[0].IP))
		Expect(record.Status.State).To(Equal(v1alpha1.StateInUse), "the API server fills it in")
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		w.Del(ctx)
		story.KubeletFinishes(ctx, pod)
		Eventually(ctx, fixture.Exists).WithArguments(pod).Should(BeFalse())
		const records = "/apis/holdfast.dev/v1alpha1/ipallocations"
		calls := counted.about(pod)
		end := len(calls) - 2
		Expect(calls[max(end, 0):]).To(Equal([]string{
			"DELETE " + records + "/" + string(pod.UID),
			"PATCH /api/v1/namespaces/" + w.Name + "/pods/web",
		}), "the pod is deleted last: it is the proof of its own termination")
		// A watch that is behind costs one more write of the record, and no other.
		Expect(calls[:end]).To(HaveEach(BeElementOf("POST "+records, "PUT "+records+"/"+string(pod.UID))))
	})

	It("I1 I2: releases what a lost DEL left behind once the kubelet has finished, and only then lets the pod go", func(ctx context.Context) {
		pod := w.Running(ctx, "web")
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		Expect(w.Holds(ctx)).To(BeTrue(), "the address was released before the kubelet had finished")
		story.KubeletFinishes(ctx, pod)
		Eventually(ctx, fixture.Exists).WithArguments(pod).Should(BeFalse())
		Expect(w.Holds(ctx)).To(BeFalse())
		Expect(story.RecordOf(ctx, pod)).To(BeNil())
	})

	It("uses pods/status where another admission plugin makes every patch of the pod fail (kubernetes#109164)", func(ctx context.Context) {
		pod := w.Running(ctx, "web")
		breakPodUpdates(ctx, w.Name)
		story.End(ctx, pod)
		Expect(w.Holds(ctx)).To(BeFalse())
	})

	It("lets a namespace be deleted with its pods", func(ctx context.Context) {
		pod := w.Running(ctx, "web")
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Name}})).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			var live corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
			g.Expect(live.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		story.KubeletFinishes(ctx, pod)
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKey{Name: w.Name}, &corev1.Namespace{}))
		}).Should(BeTrue())
		Expect(w.Holds(ctx)).To(BeFalse())
	})

	It("shares a Job's pods with the Job controller's own finalizer, and releases while they are kept (row PodCompleted)", func(ctx context.Context) {
		job := jobOf(w)
		Expect(admin.Create(ctx, job)).To(Succeed())
		var pods corev1.PodList
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &pods, client.InNamespace(w.Name))).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(1))
		}).Should(Succeed())
		pod := &pods.Items[0]
		Expect(pod.Finalizers).To(ConsistOf(v1alpha1.Finalizer, batchv1.JobTrackingFinalizer))
		w.Give(ctx, pod, story.SandboxOf(pod))
		w.Show(ctx, pod, "net", w.IP(1))
		story.AwaitRecord(ctx, pod)
		story.KubeletWrites(ctx, pod, corev1.PodSucceeded)
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.Status.Succeeded).To(BeEquivalentTo(1))
		}).Should(Succeed())
		Eventually(ctx, w.Holds).Should(BeFalse())
		Expect(story.FinalizersOf(ctx, pod)).To(ConsistOf(v1alpha1.Finalizer))
		Expect(admin.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(ctx, fixture.Exists).WithArguments(pod).Should(BeFalse())
	})

	It("I10: is protected again when it lost the finalizer, and an event names who removed it", func(ctx context.Context) {
		pod := w.Running(ctx, "web")
		protectedAgain := func(ctx context.Context) ([]string, error) {
			return story.Notes(ctx, "Pod", pod.Name, v1alpha1.ReasonProtectedAgain)
		}
		strip := func(manager, patch string) {
			GinkgoHelper()
			Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
			Eventually(ctx, story.FinalizersOf).WithArguments(pod).Should(ConsistOf(v1alpha1.Finalizer))
		}
		By("removing the finalizer in a write that changes something else")
		strip("finalizer-remover", `{"metadata":{"finalizers":null,"annotations":{"example.com/touched":"yes"}}}`)
		Eventually(ctx, protectedAgain).Should(ContainElement(ContainSubstring(`Field manager "finalizer-remover"`)))

		By("removing nothing but the finalizer, which leaves no entry in managedFields")
		strip("quiet-remover", `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, protectedAgain).Should(ContainElement(ContainSubstring("left no trace in managedFields")))
		var live corev1.Pod
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
		for _, entry := range live.ManagedFields {
			Expect(entry.Manager).NotTo(Equal("quiet-remover"))
		}
	})

	It("I1: does not accept the report of the real PodGC, which terminates pods of a deleted Node", func(ctx context.Context) {
		Eventually(ctx, func(g Gomega) {
			var live corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(orphaned), &live)).To(Succeed())
			g.Expect(live.Status.Phase).To(Equal(corev1.PodFailed))
			g.Expect(live.DeletionGracePeriodSeconds).To(HaveValue(BeZero()))
		}).WithTimeout(podGCSoon).Should(Succeed())
		Eventually(ctx, story.Why).WithArguments(orphaned).Should(HavePrefix(string(v1alpha1.ReasonNodeGone)))
		Expect(collected.Holds(ctx)).To(BeTrue())
	})
})

var _ = suite.Describe("Two managers", func() {
	It("take turns by leader election, and the next leader carries on", func(ctx context.Context) {
		elected := story.Manager{Configure: func(c *configv1alpha1.ManagerConfiguration) { c.Controller.LeaderElection = new(true) }}
		w := story.New(ctx)
		stop := elected.Start(ctx)
		pod := w.Running(ctx, "web")
		elected.Start(ctx)
		stop()
		story.End(ctx, pod)
		Expect(w.Holds(ctx)).To(BeFalse())
	})
})

var _ = suite.Describe("When a pod was bound", func() {
	It("is the time of the API server's condition where a scheduler bound it, and its creation where it was made with its nodeName", func(ctx context.Context) {
		w := story.New(ctx)
		bound := w.Create(ctx, "bound", "net", func(p *corev1.Pod) { p.Spec.NodeName = "" })
		story.Later(ctx, bound.CreationTimestamp.Time)
		Expect(admin.SubResource("binding").Create(ctx, bound, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: w.Node.Name}})).To(Succeed())
		made := w.Create(ctx, "made", "net")
		// By its own clock, as the kubelet of a pod that no scheduler bound.
		story.KubeletPatches(ctx, made, map[string]any{"conditions": []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(time.Hour))}}})
		for _, pod := range []*corev1.Pod{bound, made} {
			story.KubeletWrites(ctx, pod, corev1.PodRunning)
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			Expect(pod.Spec.NodeName).To(Equal(w.Node.Name))
		}
		Expect(release.Bound(bound)).To(BeTemporally(">", bound.CreationTimestamp.Time))
		Expect(release.Bound(made)).To(BeTemporally("==", made.CreationTimestamp.Time))
	})
})

// jobOf is a Job whose pod is protected.
func jobOf(w *story.World) *batchv1.Job {
	pod := w.PodOf("", "net")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: "job"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}}}
}

// breakPodUpdates installs what the field has seen: a webhook that changes the spec on every pod update, which the API server then
// refuses. pods/status is not matched.
func breakPodUpdates(ctx context.Context, namespace string) {
	GinkgoHelper()
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}}}
	Expect(admin.Create(ctx, probe)).To(Succeed())
	fixture.MutatePods(ctx, namespace, `[{"op":"add","path":"/spec/hostname","value":"changed"}]`, func(ctx context.Context) bool {
		err := admin.Patch(ctx, probe.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`)), client.DryRunAll)
		return apierrors.IsInvalid(err)
	})
}
