// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = suite.Describe("the chart without cert-manager", func() {
	It("guards pods and node-scoped resources, by a certificate of the user's own", func(ctx context.Context) {
		out, err := helm("uninstall", release, "--no-hooks", "--ignore-not-found", "--wait")
		Expect(err).NotTo(HaveOccurred(), out)
		folder := GinkgoT().TempDir()
		writeCertificate(ctx, folder)
		port := fixture.FreePort()
		out, err = helm("install", release, chart, "--create-namespace", "--set-file=certificates.caBundle="+filepath.Join(folder, "ca.crt"),
			fmt.Sprintf("--set=manager.configuration.server.webhookHost=127.0.0.1,manager.configuration.server.webhookPort=%d,manager.configuration.server.certDir=%s", port, folder),
			fmt.Sprintf("--set=manager.configuration.server.webhookURL=https://127.0.0.1:%d", port),
			fmt.Sprintf("--set=manager.configuration.server.metricsBindAddress=127.0.0.1:%d,manager.configuration.server.healthProbeBindAddress=127.0.0.1:%d", fixture.FreePort(), fixture.FreePort()))
		Expect(err).NotTo(HaveOccurred(), out)
		callAt(ctx, port)
		runManager(ctx, folder)

		network := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "blue"},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"0.3.1","name":"blue","type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`}}
		Expect(admin.Create(ctx, network)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "web-", Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "blue"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}}}
			g.Expect(admin.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			g.Expect(pod.Finalizers).To(ConsistOf(v1alpha1.Finalizer))
			g.Expect(pod.Labels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))
		}).Should(Succeed())

		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "replaced"}}
		Expect(admin.Create(ctx, node)).To(Succeed())
		Eventually(ctx, func() error {
			return admin.Create(ctx, nodecrds.NodeNetworkConfig(node.Name, "the-node-before"), client.DryRunAll)
		}).Should(MatchError(ContainSubstring(string(v1alpha1.ReasonStaleNodeUID))))
		Expect(admin.Create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID), client.DryRunAll)).To(Succeed())
	}, SpecTimeout(specTimeout))
})

// writeCertificate does what docs/installation-helm.md has the user do: it makes the Secret of a serving certificate, and a file of its authority.
func writeCertificate(ctx context.Context, folder string) {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, []string{"holdfast-webhook." + own + ".svc", "holdfast-metrics." + own + ".svc"})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "ca.crt"), certificate, 0o600)).To(Succeed())
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}))).To(Succeed())
	Expect(admin.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "holdfast-webhook-cert"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": certificate}})).To(Succeed())
}

// callAt has the API server call the protection webhook at a port of this machine, since the control plane has no pod network. The authority stays Helm's.
func callAt(ctx context.Context, port int) {
	GinkgoHelper()
	protection := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-protect"}, protection)).To(Succeed())
	for i := range protection.Webhooks {
		at := &protection.Webhooks[i].ClientConfig
		at.URL, at.Service = new(fmt.Sprintf("https://127.0.0.1:%d%s", port, *at.Service.Path)), nil
	}
	Expect(admin.Update(ctx, protection)).To(Succeed())
}

// runManager runs a pod of the Deployment as a kubelet would: with the files that it mounts, and the token of its account.
func runManager(ctx context.Context, folder string) {
	GinkgoHelper()
	deployment, secret, configuration := &appsv1.Deployment{}, &corev1.Secret{}, &corev1.ConfigMap{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: "holdfast-manager"}, deployment)).To(Succeed())
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: configurationOf(deployment)}, configuration)).To(Succeed())
	template := deployment.Spec.Template.Spec
	volume := slices.IndexFunc(template.Volumes, func(v corev1.Volume) bool { return v.Secret != nil })
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: template.Volumes[volume].Secret.SecretName}, secret)).To(Succeed())
	for name, content := range secret.Data {
		Expect(os.WriteFile(filepath.Join(folder, name), content, 0o600)).To(Succeed())
	}
	config := filepath.Join(folder, "config.yaml")
	Expect(os.WriteFile(config, []byte(configuration.Data["config.yaml"]), 0o600)).To(Succeed())
	Expect(template.Containers[0].Args).To(Equal([]string{"run", "--config=/etc/holdfast/config.yaml"}))

	var pods corev1.PodList
	Eventually(ctx, func() []corev1.Pod {
		Expect(admin.List(ctx, &pods, client.InNamespace(own), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))).To(Succeed())
		return pods.Items
	}).ShouldNot(BeEmpty())
	kubeconfig, err := kubeconfigOf(ctx, &pods.Items[0])
	Expect(err).NotTo(HaveOccurred())
	command := exec.Command(fixture.Command("manager"), "run", "--config="+config)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "POD_NAMESPACE="+own)
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(command.Process.Signal(os.Interrupt)).To(Succeed())
		Expect(command.Wait()).To(Succeed())
	})
}
