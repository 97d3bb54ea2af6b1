// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// systemClusterCritical is the value of that priority class (kube-apiserver's own).
const systemClusterCritical = 2_000_000_000

var _ = Describe("The manager's pods", Ordered, func() {
	var installation []manifest
	BeforeAll(func(ctx context.Context) {
		installation = render("config/default")
		removeManager(ctx)
		Expect(apply(ctx, installation)).To(BeEmpty())
	})

	It("are two, admitted under the level restricted and the system's priority", func(ctx context.Context) {
		labels := decodeAs[*corev1.Namespace](installation, namespace).Labels
		Expect(labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
		var pods corev1.PodList
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(2))
		}).Should(Succeed())
		for i := range pods.Items {
			Expect(pods.Items[i].Spec.Priority).To(HaveValue(BeEquivalentTo(systemClusterCritical)))
		}
		By("the controller manager having counted them in the quota that some platforms ask for")
		Eventually(ctx, func(g Gomega) {
			var quota corev1.ResourceQuota
			g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "holdfast-critical-pods"}, &quota)).To(Succeed())
			g.Expect(quota.Status.Used.Pods().Value()).To(BeEquivalentTo(2))
		}).Should(Succeed())
	})

	It("spread over nodes and zones, keep one through a drain, are probed, and stop with time to drain", func() {
		deployment := decodeAs[*appsv1.Deployment](installation, "holdfast-manager")
		Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
		pod := deployment.Spec.Template
		var keys []string
		for _, constraint := range pod.Spec.TopologySpreadConstraints {
			keys = append(keys, constraint.TopologyKey)
			for name, value := range constraint.LabelSelector.MatchLabels {
				Expect(pod.Labels).To(HaveKeyWithValue(name, value))
			}
		}
		Expect(keys).To(ConsistOf(corev1.LabelHostname, corev1.LabelTopologyZone))
		budget := decodeAs[*policyv1.PodDisruptionBudget](installation, "holdfast-manager")
		Expect(budget.Spec.MaxUnavailable.IntValue()).To(Equal(1))
		for name, value := range budget.Spec.Selector.MatchLabels {
			Expect(pod.Labels).To(HaveKeyWithValue(name, value))
		}
		container := pod.Spec.Containers[0]
		Expect(container.LivenessProbe.HTTPGet.Path).To(Equal("/healthz"))
		Expect(container.ReadinessProbe.HTTPGet.Path).To(Equal("/readyz"))
		Expect(container.Lifecycle.PreStop.Sleep).NotTo(BeNil())
	})

	It("are reached by network policy at the webhooks from everywhere, at the metrics from labeled namespaces, and nowhere else", func() {
		policy := decodeAs[*networkingv1.NetworkPolicy](renderWith("network-policies"), "holdfast-manager")
		pod := decodeAs[*appsv1.Deployment](installation, "holdfast-manager").Spec.Template
		for name, value := range policy.Spec.PodSelector.MatchLabels {
			Expect(pod.Labels).To(HaveKeyWithValue(name, value))
		}
		Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
		names := map[string]bool{}
		for _, port := range pod.Spec.Containers[0].Ports {
			names[port.Name] = true
		}
		from := map[string]int{}
		for _, rule := range policy.Spec.Ingress {
			for _, port := range rule.Ports {
				Expect(names).To(HaveKey(port.Port.StrVal), "the container has no such port")
				from[port.Port.StrVal] = len(rule.From)
			}
		}
		Expect(from).To(Equal(map[string]int{"webhook": 0, "metrics": 1}))
		var to []int
		for _, rule := range policy.Spec.Egress {
			for _, port := range rule.Ports {
				to = append(to, port.Port.IntValue())
			}
		}
		Expect(to).To(ConsistOf(443, 6443, 53, 53))
	})
})
