// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = suite.Describe("An uninstallation", func() {
	var (
		apps string
		out  *output
	)
	BeforeEach(func(ctx context.Context) {
		apps, out = newNamespace(ctx), &output{}
		install(ctx)
		DeferCleanup(cleanUp, apps)
	})

	It("takes the finalizer off every pod, with any labels, and leaves nothing", func(ctx context.Context) {
		By("refuse before anything is changed: agents wait for a policy, or the manager is in another namespace")
		refusesWhatWaits(ctx, apps, out)
		refusesAnotherNamespace(ctx, out)

		held := hold(ctx, apps, 3)
		living := guarded(apps, "living")
		Expect(admin.Create(ctx, living)).To(Succeed())
		unlabeled := guarded(apps, "unlabeled")
		unlabeled.Labels = nil
		Expect(admin.Create(ctx, unlabeled)).To(Succeed())
		ending := guarded(apps, "ending") // its node's kubelet has still to end it
		Expect(admin.Create(ctx, ending)).To(Succeed())
		Expect(admin.Delete(ctx, ending)).To(Succeed())

		others := guarded(apps, "backed-up")
		others.Finalizers = []string{foreign, v1alpha1.Finalizer, "example.com/other"}
		Expect(admin.Create(ctx, others)).To(Succeed())
		Expect(admin.Delete(ctx, others, client.GracePeriodSeconds(0))).To(Succeed())

		By("stop the manager and remove every webhook and protector before the first pod is touched")
		looked := false
		out.at("Removing the finalizer from every pod", func() {
			looked = true
			Expect(podsOf(ctx, own)).To(BeEmpty())
			Expect(deploymentOf(ctx).Spec.Replicas).To(HaveValue(BeZero()))
			Expect(webhooksAndProtectors(ctx)).To(BeEmpty())
			Expect(fixture.HeldPods(ctx)).To(HaveLen(7))
			// What judges and what records is still there: it is removed only once the proof is made.
			Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-guarded-label"}, &admissionregistrationv1.ValidatingAdmissionPolicy{})).To(Succeed())
			Expect(admin.List(ctx, &v1alpha1.IPAllocationList{})).To(Succeed())
		})
		uninstalled(ctx, options(out))
		Expect(looked).To(BeTrue())

		for _, pod := range held {
			_, err := read(ctx, pod)
			Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
		for _, pod := range []*corev1.Pod{living, unlabeled, ending} {
			live, err := read(ctx, pod)
			Expect(err).NotTo(HaveOccurred())
			Expect(live.UID).To(Equal(pod.UID))
			Expect(live.Finalizers).To(BeEmpty())
			Expect(live.Labels).NotTo(HaveKey(v1alpha1.GuardedLabel))
		}
		live, err := read(ctx, others)
		Expect(err).NotTo(HaveOccurred())
		Expect(live.Finalizers).To(ConsistOf(foreign, "example.com/other"))
		Expect(live.Labels).To(Equal(map[string]string{"app": "web"}))
		Expect(out.String()).To(And(ContainSubstring("7 with the finalizer (5 of them being deleted)"), ContainSubstring("proven: 2 reads of all pods in a row"),
			Not(ContainSubstring("tried again in the next pass"))), "a policy that is still in force does not end a pass")
	}, SpecTimeout(specTimeout))

	It("notices that what protects is applied again between the two clean reads", fixture.Needs(kubeversion.MutatingAdmissionPolicy), func(ctx context.Context) {
		hold(ctx, apps, 1)
		var late *corev1.Pod
		out.at("0 with the finalizer", func() {
			Expect(late).To(BeNil())
			for _, object := range rendered() {
				if strings.HasPrefix(object.GetKind(), "MutatingAdmissionPolicy") {
					Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner("administrator"))).To(Succeed())
				}
			}
			Eventually(ctx, func(g Gomega) {
				late = withNetworks(apps, "late")
				g.Expect(admin.Create(ctx, late, client.DryRunAll)).To(Succeed())
				g.Expect(late.Finalizers).To(ContainElement(v1alpha1.Finalizer))
			}).Should(Succeed())
			late = withNetworks(apps, "late")
			Expect(admin.Create(ctx, late)).To(Succeed())
			Expect(late.Finalizers).To(ContainElement(v1alpha1.Finalizer))
		})
		uninstalled(ctx, options(out))

		live, err := read(ctx, late)
		Expect(err).NotTo(HaveOccurred())
		Expect(live.Finalizers).To(BeEmpty())
		Expect(out.String()).To(ContainSubstring("what protects pods has come back"))
		Expect(strings.Count(out.String(), "0 with the finalizer")).To(BeNumerically(">=", 3), "a clean read before it counts for nothing")
	}, SpecTimeout(specTimeout))

	It("changes a definition that stays, so that an API server that forgot it tries again", func(ctx context.Context) {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "ipallocations.holdfast.dev"}}
		finalizers := func(finalizers string) {
			GinkgoHelper()
			Expect(admin.Patch(ctx, definition, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`)))).To(Succeed())
		}
		finalizers(`["` + foreign + `","customresourcecleanup.apiextensions.k8s.io"]`)
		seen := make(chan struct{})
		progress := &output{}
		progress.at("still there", func() {
			go func() {
				defer GinkgoRecover()
				defer close(seen)
				Eventually(ctx, func() (map[string]string, error) {
					err := admin.Get(ctx, client.ObjectKeyFromObject(definition), definition)
					return definition.Annotations, err
				}).Should(HaveKey("holdfast.dev/uninstall"))
				finalizers("null")
			}()
		})
		o := options(out)
		o.Progress = progress
		uninstalled(ctx, o)
		Eventually(ctx, seen).Should(BeClosed())
	}, SpecTimeout(specTimeout))

	It("notices that the webhook is applied again between the two clean reads", func(ctx context.Context) {
		hold(ctx, apps, 1)
		late := guarded(apps, "late")
		out.at("0 with the finalizer", func() {
			hook := fixture.Find[*admissionregistrationv1.MutatingWebhookConfiguration](rendered(), "holdfast-protect")
			Expect(admin.Create(ctx, hook)).To(Succeed())
			Expect(admin.Create(ctx, late)).To(Succeed(), "as a replica protects it")
		})
		uninstalled(ctx, options(out))

		live, err := read(ctx, late)
		Expect(err).NotTo(HaveOccurred())
		Expect(live.Finalizers).To(BeEmpty())
		Expect(out.String()).To(ContainSubstring("what protects pods has come back"))
		Expect(webhooksAndProtectors(ctx)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("makes its proof anew where the webhook is applied again after it", func(ctx context.Context) {
		hold(ctx, apps, 1)
		out.at("Removing the namespace", func() {
			Expect(admin.Create(ctx, fixture.Find[*admissionregistrationv1.MutatingWebhookConfiguration](rendered(), "holdfast-protect"))).To(Succeed())
		})
		uninstalled(ctx, options(out))
		Expect(strings.Count(out.String(), "proven: ")).To(Equal(2), out.String())
		Expect(webhooksAndProtectors(ctx)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("retries what fails, proves nothing meanwhile, and reports that at the end of its time", func(ctx context.Context) {
		pods := hold(ctx, apps, 2)
		mend := fixture.RefusePodUpdates(ctx, apps, "pods", "pods/status")
		o := options(out)
		o.Timeout = shortStop
		var timeout *uninstall.TimeoutError
		Expect(errors.As(uninstall.Run(ctx, o), &timeout)).To(BeTrue())
		Expect(timeout).To(And(HaveField("Proven", BeFalse()), HaveField("Step", "removing the finalizer from every pod")))
		Expect(out.String()).To(And(ContainSubstring("2 failed"), ContainSubstring("broken on purpose"), Not(ContainSubstring("proven: "))))
		Expect(admin.List(ctx, &v1alpha1.IPAllocationList{})).To(Succeed(), "nothing behind the sweep was touched")

		By("go through pods/status where another client's admission breaks every update of a pod")
		mend(ctx)
		fixture.RefusePodUpdates(ctx, apps, "pods")
		uninstalled(ctx, options(out))
		for _, pod := range pods {
			_, err := read(ctx, pod)
			Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
		Expect(out.String()).To(ContainSubstring("0 freed, 2 through pods/status"))
	}, SpecTimeout(specTimeout))

	It("removes the agents from a namespace that stays because it has an object of another component", func(ctx context.Context) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agents, Name: "pull"}}
		Expect(admin.Create(ctx, secret)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, secret)).To(Succeed()) })
		Expect(uninstall.Run(ctx, options(out))).To(Succeed())
		Expect(out.String()).To(ContainSubstring("Namespace " + agents + " stays, because it has objects that are not part of the installation: Secret"))
		var sets appsv1.DaemonSetList
		Expect(admin.List(ctx, &sets, client.InNamespace(agents))).To(Succeed())
		Expect(sets.Items).To(BeEmpty())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("takes the rights of a manager whose pods do not stop, and removes these pods and those of agents that do not respond", func(ctx context.Context) {
		for _, pod := range append(awaitPods(ctx, own, 2), awaitPods(ctx, agents, 1)...) {
			bind(ctx, &pod)
		}
		hold(ctx, apps, 1)
		out.at("Removing the finalizer from every pod", func() {
			Expect(podsOf(ctx, own)).To(HaveLen(2))
			var bindings rbacv1.ClusterRoleBindingList
			Expect(admin.List(ctx, &bindings)).To(Succeed())
			Expect(slices.ContainsFunc(bindings.Items, func(b rbacv1.ClusterRoleBinding) bool { return b.RoleRef.Name == "holdfast-manager" })).To(BeFalse())
			Expect(fixture.HeldPods(ctx)).To(HaveLen(1))
		})
		o := options(out)
		o.StopTimeout = shortStop
		uninstalled(ctx, o)
	}, SpecTimeout(specTimeout))
})

func refusesWhatWaits(ctx context.Context, apps string, out *output) {
	GinkgoHelper()
	waiter := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "agent"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
			Spec: corev1.PodSpec{
				NodeSelector:   map[string]string{"on": "no-node"},
				InitContainers: []corev1.Container{{Name: "wait", Image: "example.com/m", Args: []string{"wait-node-resource", "--policy=ciliumnodes"}}},
				Containers:     []corev1.Container{{Name: "main", Image: "example.com/main"}},
			},
		}},
	}
	Expect(admin.Create(ctx, waiter)).To(Succeed())
	Expect(uninstall.Run(ctx, options(out))).To(MatchError(ContainSubstring("the pods of the DaemonSets " + apps + "/agent run")))
	Expect(deploymentOf(ctx).Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
	Expect(admin.Delete(ctx, waiter)).To(Succeed())
}

func refusesAnotherNamespace(ctx context.Context, out *output) {
	GinkgoHelper()
	o := options(out)
	o.Namespace = "network-guard"
	Expect(uninstall.Run(ctx, o)).To(MatchError(ContainSubstring("manager is in namespace holdfast-system, not in network-guard")))
	Expect(deploymentOf(ctx).Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
}

// webhooksAndProtectors are the names of everything that the API server mutates by, or calls.
func webhooksAndProtectors(ctx context.Context) []string {
	GinkgoHelper()
	var names []string
	kinds := []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
	if fixture.ServesMutatingPolicies() {
		kinds = append(kinds, "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
	}
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind + "List"))
		Expect(admin.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}
