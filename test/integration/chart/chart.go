// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"os/exec"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = suite.Describe("the chart", Ordered, func() {
	const apps = "default"

	It("is refused with the admission policy, which the API server does not serve", fixture.Lacks(kubeversion.MutatingAdmissionPolicy), func(ctx context.Context) {
		out, err := helm("install", release, chart, "--create-namespace", "--set=protection.admissionPolicy=true")
		Expect(err).To(HaveOccurred())
		Expect(out).To(And(ContainSubstring("does not serve MutatingAdmissionPolicy v1"), ContainSubstring("set it to false; the webhook protects pods without it")))
		var deployments appsv1.DeploymentList
		Expect(admin.List(ctx, &deployments, client.InNamespace(own))).To(Succeed())
		Expect(deployments.Items).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("is installed beside what is there, and upgraded", func(ctx context.Context) {
		install()
		deployment := &appsv1.Deployment{}
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: "holdfast-manager"}, deployment)).To(Succeed())
		before := configurationOf(deployment)

		out, err := helm("upgrade", release, chart, "--reset-then-reuse-values", "--set=manager.configuration.delays.releaseDelay=4m")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: "holdfast-manager"}, deployment)).To(Succeed())
		after := configurationOf(deployment)
		Expect(after).NotTo(Equal(before))
		for _, name := range []string{before, after} {
			Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: name}, &corev1.ConfigMap{})).To(Succeed(), "replicas of before still have %s", name)
		}
		Expect(ofHook(ctx)).To(BeEmpty(), "the account exists only while the hook runs")
	}, SpecTimeout(specTimeout))

	It("names in its notes the next steps, and the labels that the namespace lacks", func(ctx context.Context) {
		notes, err := helm("get", "notes", release)
		Expect(err).NotTo(HaveOccurred())
		Expect(notes).To(And(ContainSubstring("kubectl holdfast doctor"), ContainSubstring("helm uninstall holdfast -n holdfast-system"),
			ContainSubstring("kubectl label --overwrite namespace holdfast-system pod-security.kubernetes.io/enforce=restricted")))
		labels := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
		Expect(admin.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}, labels)).To(Succeed())
		out, err := helm("upgrade", release, chart, "--reset-then-reuse-values")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).NotTo(ContainSubstring("kubectl label"))
	}, SpecTimeout(specTimeout))

	It("is not uninstalled while a pod is held that cannot be freed, and then is", func(ctx context.Context) {
		objects := installed()
		hold(ctx, apps, "held")
		strand(ctx)
		mend := fixture.RefusePodUpdates(ctx, apps, "pods", "pods/status")
		playing, stop := context.WithCancel(ctx)
		logs := kubelet(playing, "broken on purpose")
		out, err := helm("uninstall", release, "--timeout=3m")
		stop()
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("holdfast-uninstall not ready"))
		Expect(<-logs).To(And(ContainSubstring("so its account loses its rights"), ContainSubstring("ClusterRoleBinding holdfast-manager deleted"),
			ContainSubstring("broken on purpose")))
		Expect(fixture.HeldPods(ctx)).To(ConsistOf(apps + "/held"))
		gone := func() []string { return standing(ctx, objects) }
		Expect(gone()).To(ContainElements("Deployment holdfast-manager", "ClusterRole holdfast-manager", "Service holdfast-webhook"))
		Eventually(ctx, func() []string { return ofHook(ctx) }).Should(ConsistOf("Job"))

		mend(ctx)
		other := hold(ctx, apps, "of-another-too", foreign)
		playing, stop = context.WithCancel(ctx)
		DeferCleanup(stop)
		logs = kubelet(playing, "")
		out, err = helm("uninstall", release, "--timeout=3m")
		Expect(err).NotTo(HaveOccurred(), out)
		stop()
		Expect(<-logs).To(And(ContainSubstring("proven: 2 reads of all pods in a row"), Not(ContainSubstring("forbidden"))))
		Expect(fixture.HeldPods(ctx)).To(BeEmpty())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
		Expect(other.Finalizers).To(ConsistOf(foreign))
		Eventually(ctx, gone).Should(BeEmpty())
		Expect(ofHook(ctx)).To(ConsistOf("Job"), "its log has the list of what stays held")
	}, SpecTimeout(specTimeout))

	It("leaves definitions and records, and is installed again over them", func(ctx context.Context) {
		record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "1f3b7e9c-0000-4000-8000-000000000000"}}
		Expect(client.IgnoreAlreadyExists(admin.Create(ctx, record))).To(Succeed())
		install()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
		objects := installed()
		Expect(standing(ctx, objects)).To(HaveLen(len(objects)))
	}, SpecTimeout(specTimeout))

	It("changes nothing when the same is applied again", func(ctx context.Context) {
		manifest, err := helm("template", release, chart, everything())
		Expect(err).NotTo(HaveOccurred())
		_, manifest, _ = strings.Cut(manifest, "---\n") // of a registry helm says first what it pulled
		objects := fixture.Decode([]byte(manifest))
		Expect(len(objects)).To(BeNumerically(">", 40))
		// The API server sorts managers by second and then by name, and writes an object of which that order changes: this one comes after helm in both.
		const tool = "kustomize-controller"
		apply := func() map[string]*unstructured.Unstructured {
			GinkgoHelper()
			after := map[string]*unstructured.Unstructured{}
			for _, object := range objects {
				applied := object.DeepCopy()
				Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(tool), client.ForceOwnership)).To(Succeed(), object.GetName())
				live := &unstructured.Unstructured{}
				live.SetGroupVersionKind(object.GroupVersionKind())
				Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), live)).To(Succeed())
				after[object.GetKind()+" "+object.GetName()] = written(live)
			}
			return after
		}
		Expect(apply()).To(BeComparableTo(apply()))
	}, SpecTimeout(specTimeout))

	It("leaves its pods held where the hook does not run, and the command frees them before or afterwards", func(ctx context.Context) {
		for _, isFirst := range []bool{false, true} {
			objects := installed()
			hold(ctx, apps, "without-hook")
			if isFirst {
				uninstall(ctx)
				Expect(fixture.HeldPods(ctx)).To(BeEmpty())
			}
			out, err := helm("uninstall", release, "--no-hooks")
			Expect(err).NotTo(HaveOccurred(), out)
			Eventually(ctx, func() []string { return standing(ctx, objects) }).Should(BeEmpty())
			if isFirst {
				return
			}
			Expect(fixture.HeldPods(ctx)).To(ConsistOf(apps + "/without-hook"))
			uninstall(ctx)
			Expect(fixture.HeldPods(ctx)).To(BeEmpty())
			install()
		}
	}, SpecTimeout(specTimeout))
})

// uninstall runs the command as a user does beside Helm, and finds no webhook afterwards.
func uninstall(ctx context.Context) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, fixture.Command("manager"), "uninstall", "--kubeconfig", plane.Kubeconfig(), "--yes", "--leave-objects", "--pass-interval=200ms")
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	Expect(string(out)).To(ContainSubstring("proven: 2 reads of all pods in a row"))
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	Expect(admin.List(ctx, &mutating)).To(Succeed())
	Expect(admin.List(ctx, &validating)).To(Succeed())
	Expect(len(mutating.Items) + len(validating.Items)).To(BeZero())
}

// written is an object without what its controllers write. The version is left where there is no status.
func written(live *unstructured.Unstructured) *unstructured.Unstructured {
	live.SetManagedFields(nil)
	if _, has := live.Object["status"]; has {
		delete(live.Object, "status")
		live.SetResourceVersion("")
	}
	return live
}

// configurationOf is the name of the ConfigMap that a Deployment's pods mount.
func configurationOf(deployment *appsv1.Deployment) string {
	GinkgoHelper()
	volumes := deployment.Spec.Template.Spec.Volumes
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil })
	Expect(i).To(BeNumerically(">=", 0))
	return volumes[i].ConfigMap.Name
}
