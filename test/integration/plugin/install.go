// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/testing/admission"
	"github.com/holdfast-dev/holdfast/internal/testing/judged"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	own = "holdfast-system"
)

// configuration is the manager's, with delays that a test can wait for; the plugin reads the same from the ConfigMap.
const configuration = `apiVersion: config.holdfast.dev/v1alpha1
kind: ManagerConfiguration
evidence: Kubelet
delays: {releaseDelay: 1s, gracePeriodSlack: 0s, sandboxCreationMax: 2s, nodeGoneDelay: 5m}
audit: {mode: Report}
controller: {leaderElection: false}
unsafeReleases: {mode: %s}
server: {webhookHost: 127.0.0.1, webhookPort: %d, certDir: %s, metricsBindAddress: "0", healthProbeBindAddress: "0"}
`

// webhookPort is where the manager of this suite serves, and authority the certificate that it serves with and that is trusted.
var (
	webhookPort int
	certDir     string
	authority   []byte
)

// install applies config/default as it is rendered; its webhooks find the manager at a port of this machine.
func install(ctx context.Context) {
	GinkgoHelper()
	fixture.Command("kubectl-holdfast")
	webhookPort = fixture.FreePort()
	certDir = GinkgoT().TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, []string{"holdfast-webhook.holdfast-system.svc"})
	Expect(err).NotTo(HaveOccurred())
	authority = certificate
	Expect(os.WriteFile(filepath.Join(certDir, "tls.crt"), certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(certDir, "tls.key"), key, 0o600)).To(Succeed())

	// The suite's configuration wants no agents, and no kubelet would run them.
	objects := fixture.Installation().Objects("DaemonSet")
	for _, object := range objects {
		adapt(object)
	}
	fixture.Apply(ctx, objects)
	Expect(admin.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "holdfast-webhook-cert"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": certificate}})).To(Succeed())
	issue(ctx, cmmeta.ConditionTrue)
	installIPAM(ctx)
}

// issue writes what cert-manager says about the Certificates of the installation.
func issue(ctx context.Context, ready cmmeta.ConditionStatus) {
	GinkgoHelper()
	var certificates certmanagerv1.CertificateList
	Expect(admin.List(ctx, &certificates, client.InNamespace(own))).To(Succeed())
	Expect(certificates.Items).NotTo(BeEmpty())
	for i := range certificates.Items {
		c := &certificates.Items[i]
		c.Status.RenewalTime = &metav1.Time{Time: time.Now().Add(30 * 24 * time.Hour)}
		c.Status.Conditions = []certmanagerv1.CertificateCondition{{Type: certmanagerv1.CertificateConditionReady, Status: ready, Reason: "Suite", Message: "as the spec wants"}}
		Expect(admin.Status().Update(ctx, c)).To(Succeed())
	}
}

// adapt makes an object of the installation fit a control plane without a pod network.
func adapt(object *unstructured.Unstructured) {
	GinkgoHelper()
	switch object.GetKind() {
	case "ValidatingAdmissionPolicy":
		// The administrator writes what the nodes of this suite report.
		Expect(admission.TrustKubelets(object, "admin")).To(Succeed())
	case "ConfigMap":
		if !strings.HasPrefix(object.GetName(), app.Name) {
			return // the agents'
		}
		Expect(unstructured.SetNestedField(object.Object, fmt.Sprintf(configuration, "Warn", webhookPort, certDir), "data", "config.yaml")).To(Succeed())
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		Expect(err).NotTo(HaveOccurred())
		for _, webhook := range webhooks {
			w := webhook.(map[string]any)
			path, _, err := unstructured.NestedString(w, "clientConfig", "service", "path")
			Expect(err).NotTo(HaveOccurred())
			w["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d%s", webhookPort, path), "caBundle": authority}
		}
		Expect(setWebhooks(object, webhooks)).To(Succeed())
	}
}

func setWebhooks(object *unstructured.Unstructured, webhooks []any) error {
	for _, webhook := range webhooks {
		c := webhook.(map[string]any)["clientConfig"].(map[string]any)
		c["caBundle"] = base64Of(c["caBundle"].([]byte))
	}
	return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
}

// startManager runs the manager of the installation in this process, with its account's token, and makes its pods look Ready.
func startManager(ctx context.Context) (stop func()) {
	GinkgoHelper()
	return startManagerInMode(ctx, "Warn")
}

func startManagerInMode(ctx context.Context, mode string) (stop func()) {
	GinkgoHelper()
	identity := fixture.AccountConfig(ctx, own, app.Name, nil)
	c, err := config.ParseManager("the suite's", fmt.Appendf(nil, configuration, mode, webhookPort, certDir))
	Expect(err).NotTo(HaveOccurred())
	return fixture.RunManager(ctx, func(running context.Context) (manager.Manager, error) {
		return app.New(running, identity, c, app.Options{Log: GinkgoLogr, PoliciesSince: judged.Always})
	})
}

// playReplicas does what scheduler and kubelets of the manager's pods would: each is on a node of its own, and Ready.
func playReplicas(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var pods corev1.PodList
		g.Expect(admin.List(ctx, &pods, client.InNamespace(own))).To(Succeed())
		for i := range pods.Items {
			pod, node := &pods.Items[i], fmt.Sprintf("control-%d", i)
			g.Expect(client.IgnoreAlreadyExists(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))).To(Succeed())
			if pod.Spec.NodeName == "" {
				g.Expect(admin.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})).To(Succeed())
			}
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			pod.Status.Phase = corev1.PodRunning
			// The webhooks of the preset policies call the Service, which has the replicas behind it by their addresses.
			pod.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("192.0.2.%d", i+1)}}
			pod.Status.PodIP = pod.Status.PodIPs[0].IP
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			g.Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		}
		var deployment appsv1.Deployment
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: app.Name}, &deployment)).To(Succeed())
		g.Expect(deployment.Status.AvailableReplicas).To(BeEquivalentTo(2))
	}).Should(Succeed())
}

// installIPAM makes the DaemonSet by which the nodes' own CNI DEL is known.
func installIPAM(ctx context.Context) {
	GinkgoHelper()
	labels := map[string]string{"app": "whereabouts"}
	Expect(admin.Create(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "whereabouts"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"none": "none"}, Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}}}}})).To(Succeed())
}
