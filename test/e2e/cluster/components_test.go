// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/testing/versioned"
)

// componentSpecs apply components of config/components over the installation, see that each does what the installation's page
// says, and take it away again.
var componentSpecs = map[string]guardedSpec{
	"fail-closed: without a manager no pod of a guarded network starts, and every other one does":            {capacity: 2, core: true, play: failClosed},
	"admission-policy-protection: without a manager and without the webhook a pod is protected all the same": {capacity: 3, core: true, versions: Label(versioned.Needs(kubeversion.MutatingAdmissionPolicy)), play: policyProtection},
	"hostnetwork: the webhooks come up and respond while no node has a network plugin":                       {capacity: 2, nodes: true, play: hostNetwork},
	"prometheus: an account with the permission gets the metrics at the ServiceMonitor's endpoint":           {capacity: 1, nodes: true, play: scraped},
}

// componentsFolder is where installations with components are written, from the top of the repository.
const componentsFolder = "bin/e2e"

// evidence is the installation's setting: E2E_EVIDENCE, or else the default.
func evidence() configv1alpha1.Evidence {
	return cmp.Or(configv1alpha1.Evidence(os.Getenv("E2E_EVIDENCE")), configv1alpha1.DefaultEvidence)
}

// overlayFolder is the installation of this suite, from the top of the repository.
func overlayFolder(ctx context.Context) string {
	GinkgoHelper()
	type of struct {
		evidence configv1alpha1.Evidence
		platform string
		onNodes  bool // the reconciler
	}
	folders := map[of]string{
		{configv1alpha1.EvidenceAgent, "", false}:    "test/e2e/cluster/overlay",
		{configv1alpha1.EvidenceAgent, "", true}:     "test/e2e/cluster/overlay-before-0.9",
		{configv1alpha1.EvidenceAgent, "k3s", false}: "test/e2e/cluster/overlay-k3s",
		{configv1alpha1.EvidenceKubelet, "", false}:  "test/e2e/cluster/overlay-kubelet",
	}
	is := of{evidence(), platform(), powered && reconcilesOnNodes(ctx)}
	folder, ok := folders[is]
	if !ok {
		Fail(fmt.Sprintf("E2E_EVIDENCE is %q, the cluster's platform %q, and its whereabouts is before 0.9: %t; expected Agent, or Kubelet where the platform is none and whereabouts the newest",
			is.evidence, is.platform, is.onNodes))
	}
	return folder
}

// added are the objects that a component brings; an installation that is applied without it does not take them away.
var added = map[string][]string{
	"admission-policy-protection": {"-f", "config/components/admission-policy-protection/policy.yaml"},
	"prometheus":                  {"-k", "config/prometheus"},
}

// withComponents applies the installation with components, until the spec ends.
func withComponents(ctx context.Context, components ...string) {
	GinkgoHelper()
	By("install with " + strings.Join(components, " and "))
	folder := filepath.Join(componentsFolder, strings.Join(components, "-"))
	lines := []string{
		"apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization",
		"resources:", "  - ../../../" + overlayFolder(ctx), "components:",
	}
	for _, component := range components {
		lines = append(lines, "  - ../../../config/components/"+component)
	}
	Expect(os.MkdirAll(filepath.Join(repository, folder), 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(repository, folder, "kustomization.yaml"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		for _, component := range components {
			if objects := added[component]; objects != nil {
				run(ctx, kubectl(), slices.Concat([]string{"delete", "--ignore-not-found"}, objects)...)
			}
		}
		applyInstallation(ctx, overlayFolder(ctx))
		Expect(protectionPolicy(ctx)).To(Equal(admissionregistrationv1.Ignore))
		var deployment appsv1.Deployment
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: system, Name: manager}, &deployment)).To(Succeed())
		Expect(deployment.Spec.Template.Spec).To(And(HaveField("HostNetwork", false), HaveField("Tolerations", BeEmpty())))
	})
	applyInstallation(ctx, folder)
}

// applyInstallation applies a kustomization and waits until the manager is as it says. The suite itself has scaled the
// Deployment, and a user may have: what is applied counts.
func applyInstallation(ctx context.Context, folder string) {
	GinkgoHelper()
	run(ctx, kubectl(), "apply", "--server-side", "--force-conflicts", "-k", folder)
	awaitManager(ctx)
	awaitAgents(ctx)
}

// protectionPolicy is the failurePolicy of the webhook that protects.
func protectionPolicy(ctx context.Context) admissionregistrationv1.FailurePolicyType {
	GinkgoHelper()
	var protection admissionregistrationv1.MutatingWebhookConfiguration
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-protect"}, &protection)).To(Succeed())
	Expect(protection.Webhooks).To(HaveLen(1))
	return *protection.Webhooks[0].FailurePolicy
}

// probe asks the API server what would become of a pod that names the network.
func (w *world) probe(ctx context.Context) (*corev1.Pod, error) {
	template := w.pod("probe")
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = w.namespace, "probe"
	return pod, admin.Create(ctx, pod, client.DryRunAll)
}

// isProtected waits until a pod that names the network is protected.
func (w *world) isProtected(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		pod, err := w.probe(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pod.Finalizers).To(ConsistOf(v1alpha1.Finalizer))
		g.Expect(pod.Labels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))
	}).WithContext(ctx).WithTimeout(installSoon).Should(Succeed())
}

// single makes a pod that names networks, or none, wherever the scheduler wants it; each change sees it before it is created.
func (w *world) single(ctx context.Context, name, networks string, changes ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	template := w.pod(name)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.Annotations = w.namespace, name, nil
	if networks != "" {
		pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: networks}
	}
	for _, change := range changes {
		change(pod)
	}
	By("start pod " + name)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// runs waits until a pod runs.
func runs(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var found corev1.Pod
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &found)).To(Succeed())
		g.Expect(found.Status.Phase).To(Equal(corev1.PodRunning))
	}).WithContext(ctx).Should(Succeed())
}

func failClosed(ctx context.Context, w *world) {
	withComponents(ctx, "fail-closed")
	Expect(protectionPolicy(ctx)).To(Equal(admissionregistrationv1.Fail))
	noManager(ctx)
	By("create a pod that names the network")
	Eventually(func() error { _, err := w.probe(ctx); return err }).WithContext(ctx).
		Should(MatchError(ContainSubstring(`failed calling webhook "protect.holdfast.dev"`)))
	w.statefulSet(ctx, "web", 2, nil)
	By("wait until its controller was refused")
	Eventually(func(g Gomega) {
		var events corev1.EventList
		g.Expect(admin.List(ctx, &events, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(events.Items).To(ContainElement(And(HaveField("Reason", "FailedCreate"), HaveField("Message", ContainSubstring("protect.holdfast.dev")))))
	}).WithContext(ctx).Should(Succeed())
	runs(ctx, w.single(ctx, "plain", ""))
	Expect(w.pods(ctx)).To(HaveLen(1), "the one that names no network")
	By("let the manager come back")
	scaleManager(ctx, 2)
	w.awaitAll(ctx, "web", 2)
	Expect(w.finalizers(ctx)).To(ConsistOf("web-0", "web-1"))
}

// policyProtection has fail-closed too: a pod that the policy has protected is not sent to the webhook, so that none is refused.
func policyProtection(ctx context.Context, w *world) {
	const unguarded = "unguarded"
	w.attach(ctx, unguarded, `{}`)
	withComponents(ctx, "fail-closed", "admission-policy-protection")
	noManager(ctx)
	w.isProtected(ctx)
	w.statefulSet(ctx, "web", 1, nil)
	old, _ := w.awaitPod(ctx, "web-0")
	By("remove the webhook")
	Expect(admin.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-protect"}})).To(Succeed())
	w.isProtected(ctx)
	w.statefulSet(ctx, "next", 1, nil)
	w.awaitPod(ctx, "next-0")
	Expect(w.single(ctx, "plain", "").Finalizers).To(BeEmpty())
	By("start a pod of a network that no IPAM of ours manages: the policy cannot know that")
	runs(ctx, w.single(ctx, "superset", unguarded))
	Expect(w.finalizers(ctx)).To(ConsistOf("web-0", "next-0", "superset"))
	By("delete a pod")
	Expect(admin.Delete(ctx, old)).To(Succeed())
	Eventually(w.entries).WithContext(ctx).Should(HaveLen(1), "its node has run CNI DEL")
	Expect(w.isHeld(ctx, old)()).To(BeTrue(), "no manager runs to release it")
	By("let the manager come back")
	scaleManager(ctx, 2)
	w.awaitPod(ctx, "web-0", old.UID)
	Eventually(w.finalizers).WithContext(ctx).Should(ConsistOf("web-0", "next-0"), "the finalizer is removed where no network is guarded")
}

// hostNetwork takes the network plugin's configuration from every node, so that each is NotReady and no pod with a network of
// its own starts, and then every replica: those that come have nothing but the nodes' network, as on the first start of a cluster.
func hostNetwork(ctx context.Context, w *world) {
	withComponents(ctx, "hostnetwork")
	replicas := onHosts(ctx)
	w.isProtected(ctx)
	w.statefulSet(ctx, "web", 1, nil)
	w.awaitPod(ctx, "web-0")
	withoutNetworkPlugin(ctx)
	By("kill every replica")
	killManagers(ctx)
	onHosts(ctx, replicas...)
	w.isProtected(ctx)
	By("give the network plugin back")
	giveNetworkPlugin(ctx)
	w.statefulSet(ctx, "next", 1, nil)
	w.awaitPod(ctx, "next-0")
}

// onHosts waits for two replicas other than the given ones that are ready on the network of two nodes, and gives their UIDs.
func onHosts(ctx context.Context, other ...types.UID) (replicas []types.UID) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		replicas = nil
		addresses := map[string]bool{}
		for _, pod := range managerPods(ctx) {
			g.Expect(other).NotTo(ContainElement(pod.UID))
			g.Expect(pod.Spec.HostNetwork).To(BeTrue())
			g.Expect(pod.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue))))
			g.Expect(pod.Status.PodIP).To(Equal(pod.Status.HostIP))
			addresses[pod.Status.PodIP] = true
			replicas = append(replicas, pod.UID)
		}
		g.Expect(replicas).To(HaveLen(2))
		g.Expect(addresses).To(HaveLen(2), "their ports are the node's: no node can have both")
	}).WithContext(ctx).WithTimeout(installSoon).Should(Succeed())
	return replicas
}

// pluginConfiguration is what a runtime looks for, and hiddenConfiguration where it does not.
const (
	pluginConfiguration = "/etc/cni/net.d/00-multus.conflist"
	hiddenConfiguration = "/etc/cni/00-multus.conflist"
)

// withoutNetworkPlugin takes the network plugin's configuration from every node, until the spec ends.
func withoutNetworkPlugin(ctx context.Context) {
	GinkgoHelper()
	watched, err := watchedNodes()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(giveNetworkPlugin)
	for _, node := range watched {
		onNode(ctx, node.Name, fmt.Sprintf("mv %s %s", pluginConfiguration, hiddenConfiguration))
	}
	for _, node := range watched {
		awaitReady(ctx, node.Name, false)
	}
}

func giveNetworkPlugin(ctx context.Context) {
	GinkgoHelper()
	watched, err := watchedNodes()
	Expect(err).NotTo(HaveOccurred())
	for _, node := range watched {
		// The runtime looks again when a file is written, not when one is moved in.
		onNode(ctx, node.Name, fmt.Sprintf("[ -e %[2]s ] || cp %[1]s %[2]s", hiddenConfiguration, pluginConfiguration))
	}
	for _, node := range watched {
		awaitReady(ctx, node.Name, true)
	}
}

// managerPods are the manager's pods that are not being deleted.
func managerPods(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(system), managerLabels)).To(Succeed())
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}
