// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = Describe("The rendered installation", Ordered, func() {
	var installation []manifest

	BeforeAll(func() { installation = render("config/default") })

	It("decodes strictly into the real types", func() {
		for _, m := range installation {
			_, err := decode(m)
			Expect(err).NotTo(HaveOccurred(), "%s:\n%s", m, m.text)
		}
	})

	It("applies to a control plane without an error or a warning", func(ctx context.Context) {
		Expect(apply(ctx, installation)).To(BeEmpty())
		By("being applied again, as an upgrade does")
		Expect(apply(ctx, installation)).To(BeEmpty())
	})

	It("has policies whose expressions fit the types that they are about", func(ctx context.Context) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &policies)).To(Succeed())
			g.Expect(policies.Items).NotTo(BeEmpty())
			for i := range policies.Items {
				g.Expect(policies.Items[i].Status.ObservedGeneration).To(Equal(policies.Items[i].Generation))
			}
		}).Should(Succeed())
		for i := range policies.Items {
			if checked := policies.Items[i].Status.TypeChecking; checked != nil {
				Expect(checked.ExpressionWarnings).To(BeEmpty(), policies.Items[i].Name)
			}
		}
	})

	It("lets the API server find the webhooks and trust their certificate", func() {
		serving := decodeAs[*certmanagerv1.Certificate](installation, "holdfast-webhook")
		service := decodeAs[*corev1.Service](installation, "holdfast-webhook")
		deployment := decodeAs[*appsv1.Deployment](installation, "holdfast-manager")
		pods := deployment.Spec.Template

		for name, value := range service.Spec.Selector {
			Expect(pods.Labels).To(HaveKeyWithValue(name, value))
		}
		Expect(service.Spec.Ports).To(HaveExactElements(HaveField("Port", int32(443))))
		Expect(serving.Spec.DNSNames).To(ContainElement(service.Name + "." + service.Namespace + ".svc"))
		Expect(pods.Spec.Volumes).To(ContainElement(HaveField("VolumeSource.Secret.SecretName", serving.Spec.SecretName)))

		protection := decodeAs[*admissionregistrationv1.MutatingWebhookConfiguration](installation, "holdfast-protect")
		slices := decodeAs[*admissionregistrationv1.MutatingWebhookConfiguration](installation, "holdfast-slices")
		unsafe := decodeAs[*admissionregistrationv1.ValidatingWebhookConfiguration](installation, "holdfast-release")
		var calls []admissionregistrationv1.WebhookClientConfig
		for i := range protection.Webhooks {
			calls = append(calls, protection.Webhooks[i].ClientConfig)
		}
		for i := range slices.Webhooks {
			calls = append(calls, slices.Webhooks[i].ClientConfig)
		}
		for i := range unsafe.Webhooks {
			calls = append(calls, unsafe.Webhooks[i].ClientConfig)
		}
		for _, call := range calls {
			Expect(call.Service).To(HaveValue(And(HaveField("Name", service.Name), HaveField("Namespace", service.Namespace), HaveField("Port", HaveValue(Equal(int32(443)))))))
		}
		for _, annotations := range []map[string]string{protection.Annotations, slices.Annotations, unsafe.Annotations} {
			Expect(annotations).To(HaveKeyWithValue(certmanagerv1.WantInjectAnnotation, serving.Namespace+"/"+serving.Name))
		}
	})

	It("keeps the admissions enforcer of AKS, which would exclude kube-system, away from every webhook", func() {
		webhooks := 0
		for _, m := range installation {
			if kind := m.object.GetKind(); kind == "MutatingWebhookConfiguration" || kind == "ValidatingWebhookConfiguration" {
				webhooks++
				Expect(m.object.GetLabels()).To(HaveKeyWithValue("admissions.enforcer/disabled", "true"), "%s", m)
			}
		}
		Expect(webhooks).To(BeNumerically(">=", 2))
	})

	It("gives its pods time to drain and a configuration that is valid", func() {
		pod := decodeAs[*appsv1.Deployment](installation, "holdfast-manager").Spec.Template.Spec
		container := pod.Containers[0]
		const draining, requestsInFlight = 5, 30
		Expect(*pod.TerminationGracePeriodSeconds).To(BeNumerically(">", container.Lifecycle.PreStop.Sleep.Seconds+draining+requestsInFlight))

		installed := installedConfiguration(installation)
		ports := map[string]int32{}
		for _, port := range container.Ports {
			ports[port.Name] = port.ContainerPort
		}
		Expect(ports).To(HaveKeyWithValue("webhook", *installed.Server.WebhookPort))
		Expect(container.VolumeMounts).To(ContainElement(HaveField("MountPath", installed.Server.CertDir)))
		Expect(installed.Evidence).To(Equal(configv1alpha1.EvidenceAgent))
		Expect(installed.UnsafeReleases.Mode).To(Equal(configv1alpha1.ReleaseModeDeny))
	})
})

var _ = Describe("Every component", Ordered, func() {
	AfterAll(func(ctx context.Context) {
		removeManager(ctx)
		Expect(apply(ctx, render("config/default"))).To(BeEmpty())
	})

	// Each by itself is rendered by test/chart, which compares it with the chart.
	It("decodes strictly, and applies with all the others that the API server serves", func(ctx context.Context) {
		removeManager(ctx) // The API server warns of pods that are there already and violate a new level of pod security.
		var unserved []string
		if !kubeversion.MutatingAdmissionPolicy.ServedBy(serverVersion()) {
			unserved = append(unserved, "admission-policy-protection")
		}
		for _, m := range renderWith(components()...) {
			_, err := decode(m)
			Expect(err).NotTo(HaveOccurred(), "%s:\n%s", m, m.text)
		}
		rendered := renderWith(components(unserved...)...)
		Expect(apply(ctx, rendered)).To(BeEmpty())
		Expect(decodeAs[*admissionregistrationv1.MutatingWebhookConfiguration](rendered, "holdfast-protect").Webhooks).
			To(HaveExactElements(And(
				HaveField("FailurePolicy", HaveValue(Equal(admissionregistrationv1.Fail))),
				HaveField("MatchConditions", And(Not(BeEmpty()), Not(ContainElement(HaveField("Name", "a-network-may-be-guarded"))))),
			)))
		Expect(installedConfiguration(rendered).UnsafeReleases.Mode).To(Equal(configv1alpha1.ReleaseModeWarn))
		Expect(decodeAs[*appsv1.Deployment](rendered, "holdfast-manager").Spec.Template.Spec.HostNetwork).To(BeTrue())
	})
})

var _ = Describe("The API server", func() {
	// hack/gotest chooses specs by these versions: a feature that is served must not be taken for one that is not.
	It("serves what its version is known to serve", func() {
		for _, feature := range kubeversion.Features {
			Expect(fixture.Serves(feature, plane.Config())).To(Equal(feature.ServedBy(serverVersion())), feature.Name)
		}
	})
})

func serverVersion() *version.Version {
	GinkgoHelper()
	info, err := discovery.NewDiscoveryClientForConfigOrDie(plane.Config()).ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	server, err := version.ParseGeneric(info.GitVersion)
	Expect(err).NotTo(HaveOccurred())
	return server
}

var _ = Describe("The samples", func() {
	It("decode strictly and apply", func(ctx context.Context) {
		samples := render("config/samples")
		for _, m := range samples {
			_, err := decode(m)
			Expect(err).NotTo(HaveOccurred(), "%s:\n%s", m, m.text)
		}
		Expect(apply(ctx, samples)).To(BeEmpty())
	})
})

// removeManager deletes the Deployment and waits until its pods are gone.
func removeManager(ctx context.Context) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "holdfast-manager"}}
	Expect(client.IgnoreNotFound(admin.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground)))).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		var pods corev1.PodList
		g.Expect(admin.List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}).Should(Succeed())
}

// installedConfiguration is the manager's configuration as it is mounted into the pod.
func installedConfiguration(manifests []manifest) *configv1alpha1.ManagerConfiguration {
	GinkgoHelper()
	deployment := decodeAs[*appsv1.Deployment](manifests, "holdfast-manager")
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.ConfigMap != nil {
			file := decodeAs[*corev1.ConfigMap](manifests, volume.ConfigMap.Name).Data["config.yaml"]
			installed, err := config.ParseManager("config.yaml", []byte(file))
			Expect(err).NotTo(HaveOccurred())
			return installed
		}
	}
	Fail("the Deployment mounts no ConfigMap")
	return nil
}
