// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"strings"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// levels are the outcomes of the doctor's checks by name; the worst of those with one name.
func levels(r result) map[string]string {
	GinkgoHelper()
	worst := map[string]string{}
	for _, check := range decoded(r)["checks"].([]any) {
		name, level := check.(map[string]any)["name"].(string), check.(map[string]any)["level"].(string)
		if worst[name] != "FAIL" && level != "OK" || worst[name] == "" {
			worst[name] = level
		}
	}
	return worst
}

// healthy is what the doctor says of a healthy installation.
const healthy = `^INSTALLATION
OK manager replicas 2 of 2 are Ready, on 2 nodes
OK configuration evidence Kubelet, unsafe releases Warn, audit Report \(ConfigMap holdfast-system/holdfast-manager-config-[0-9a-z]+\)
OK rights of the accounts \d+ rights were asked for, and are given
OK versions Kubernetes v1[.0-9]+, manager v[.0-9]+, plugin unknown
(OK features the API server serves no MutatingAdmissionPolicy v1 .*
)?
CERTIFICATES AND WEBHOOKS
OK certificate for holdfast-webhook.holdfast-system.svc, ends in 364d
OK cert-manager holdfast-ca is Ready and renews in 29d, holdfast-webhook is Ready and renews in 29d
OK webhooks \d+, each trusts the serving certificate and has a replica behind it
OK bootstrap with no manager alive, every pod starts

PROTECTION OF PODS
OK admission policies 11, and each denies what it is about
OK protection a pod that names a network was protected in a dry run
OK webhooks of others none stops updates of pods
OK pod updates a dry run went through for 1 guarded pods

NODES
OK agents not installed, and not needed \(evidence: Kubelet\)
OK node resource policies 2, and each works

ADDRESSES
OK IPAM IPPools are served
OK unsafe releases none within the last hour \(mode Warn\)
OK records held none
OK unclassified none

1[89] OK, 0 WARN, 0 FAIL
$`

var _ = suite.Describe("The doctor", Ordered, func() {
	var w *world
	var stop func()
	BeforeAll(func(ctx context.Context) {
		stop = startManager(ctx)
		playReplicas(ctx)
	})
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("finds nothing in a healthy installation", func(ctx context.Context) {
		w.run(ctx, "web-0", 1)
		// What other specs did on purpose is in events, which may be late.
		Eventually(ctx, func(g Gomega) {
			for _, reason := range []v1alpha1.Reason{v1alpha1.ReasonUnsafeReleaseRefused, v1alpha1.ReasonUnsafeReleaseWarned} {
				var events corev1.EventList
				g.Expect(admin.List(ctx, &events, client.MatchingFields{"reason": string(reason)})).To(Succeed())
				for i := range events.Items {
					g.Expect(client.IgnoreNotFound(admin.Delete(ctx, &events.Items[i]))).To(Succeed())
				}
			}
			r := plugin(ctx, "doctor", "-n", w.namespace)
			g.Expect(text(r.out)).To(MatchRegexp(healthy))
			g.Expect(r.code).To(BeZero(), r.out+r.err)
		}).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("judges, before an installation, what a manifest would install", func(ctx context.Context) {
		const kubelet = "kubelet-evidence"
		judge := func(components ...string) result {
			GinkgoHelper()
			var text strings.Builder
			for _, object := range fixture.Installation(components...).Objects() {
				content, err := yaml.Marshal(object)
				Expect(err).NotTo(HaveOccurred())
				text.WriteString("---\n" + string(content))
			}
			return pluginWith(ctx, plane.Kubeconfig(), text.String(), "doctor", "--manifest", "-")
		}
		for _, components := range [][]string{nil, {kubelet}} {
			r := judge(components...)
			Expect(r.code).To(BeZero(), r.out+r.err)
		}
		r := judge("refuse-foreign-removals")
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(r.out).To(ContainSubstring("DaemonSet kube-system/whereabouts runs CNI DEL as system:serviceaccount:kube-system:default"))
		expected := 2
		if fixture.ServesMutatingPolicies() {
			expected = 0
		}
		r = judge("admission-policy-protection")
		Expect(r.code).To(Equal(expected), r.out+r.err)

		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "micro", Labels: map[string]string{"microk8s.io/cluster": "true"}}}
		Expect(admin.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, node)).To(Succeed()) })
		r = judge(kubelet)
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(r.out).To(ContainSubstring("no report of a kubelet releases an address"))
		r = judge("microk8s")
		Expect(r.code).To(BeZero(), r.out+r.err)
		r = pluginWith(ctx, plane.Kubeconfig(), "kind: ConfigMap", "doctor", "--manifest", "-")
		Expect(r.code).To(Equal(1))
		Expect(r.err).To(ContainSubstring("has no ConfigMap with the manager's configuration"))
	}, SpecTimeout(specTimeout))

	It("finds a Certificate that cert-manager cannot issue", func(ctx context.Context) {
		issue(ctx, cmmeta.ConditionFalse)
		DeferCleanup(func(ctx context.Context) { issue(ctx, cmmeta.ConditionTrue) })
		r := plugin(ctx, "doctor", "-n", w.namespace)
		Expect(text(r.out)).To(ContainSubstring("WARN cert-manager Certificate holdfast-webhook is not Ready: Suite, as the spec wants; its Issuer is holdfast-ca\n"))
	}, SpecTimeout(specTimeout))

	It("finds a right that the manager lacks", func(ctx context.Context) {
		var role rbacv1.ClusterRole
		Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-manager"}, &role)).To(Succeed())
		before := role.DeepCopy()
		for i := range role.Rules {
			if role.Rules[i].Resources[0] == "ippools" {
				role.Rules[i].Verbs = []string{"get", "list", "watch"}
			}
		}
		Expect(admin.Update(ctx, &role)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			before.ResourceVersion = ""
			Expect(admin.Update(ctx, before)).To(Succeed())
		})
		Eventually(ctx, func() string { return text(plugin(ctx, "doctor", "-n", w.namespace).out) }).
			Should(ContainSubstring("FAIL rights of the accounts system:serviceaccount:holdfast-system:holdfast-manager may not patch ippools.whereabouts.cni.cncf.io"))
	}, SpecTimeout(specTimeout))

	It("finds that the manager is away", func(ctx context.Context) {
		stop()
		r := plugin(ctx, "doctor", "-n", w.namespace, "-o", "json")
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(levels(r)).To(HaveKeyWithValue("protection", "FAIL"))
		By("the API server went on: its failurePolicy is Ignore")
		pod := w.create(ctx, "web-0")
		Expect(pod.Finalizers).To(ContainElement(v1alpha1.Finalizer))
	}, SpecTimeout(specTimeout))
})
