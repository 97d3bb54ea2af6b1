// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/protection"
)

var _ = suite.Describe("The protection webhook", Ordered, func() {
	DescribeTable("protects what may hold a guarded address, and is not called for the rest", func(ctx context.Context, c podCase) {
		created, calls := create(ctx, c.pod)
		expectProtection(c.pod, created, c.protected)
		if c.call {
			Expect(calls).To(BeEquivalentTo(1), "calls of the webhook")
		} else {
			Expect(calls).To(BeZero(), "calls of the webhook")
		}
		if c.warning == "" {
			Expect(warned.Take()).To(BeEmpty())
		} else {
			Expect(warned.Take()).To(ContainElement(And(HavePrefix("holdfast: "), ContainSubstring(c.warning))))
		}
	}, cases())

	It("treats a dry run alike and leaves nothing behind", func(ctx context.Context) {
		asked := newPod(naming("blue"))
		asked.GenerateName, asked.Name = "", "dry"
		created, calls := create(ctx, asked, client.DryRunAll)
		expectProtection(asked, created, true)
		Expect(calls).To(BeEquivalentTo(1))
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(asked), created))).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(asked), created)).NotTo(Succeed(), "the dry run created a pod")
	})

	It("protects the pods of a real StatefulSet controller, and no pod twice", func(ctx context.Context) {
		template := newPod(naming("blue"), labeled("app", "stateful"))
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "web"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(3)), PodManagementPolicy: appsv1.ParallelPodManagement,
				Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec,
				},
			},
		}
		before := replica.calls.Load()
		Expect(admin.Create(ctx, set)).To(Succeed())
		var pods corev1.PodList
		Eventually(func() (int, error) {
			err := admin.List(ctx, &pods, client.InNamespace(apps), client.MatchingLabels{"app": "stateful", guardedLabel: "true"})
			return len(pods.Items), err
		}).Should(Equal(3))
		for i := range pods.Items {
			Expect(pods.Items[i].Finalizers).To(Equal([]string{finalizer}))
		}
		Expect(replica.calls.Load()-before).To(BeEquivalentTo(3), "calls of the webhook")
	})

	It("protects again what a later webhook took off", func(ctx context.Context) {
		installForeignWebhook(ctx)
		asked := newPod(naming("blue"), labeled("foreign", "yes"))
		Eventually(func(g Gomega) {
			created := asked.DeepCopy()
			g.Expect(admin.Create(ctx, created, client.DryRunAll)).To(Succeed())
			g.Expect(created.Finalizers).To(Equal([]string{"foreign.example.com/x", finalizer}))
			g.Expect(created.Labels).To(Equal(map[string]string{"foreign": "yes", guardedLabel: "true"}))
		}).Should(Succeed())
	})

	It("sees a definition that was created a moment ago, or protects without it", func(ctx context.Context) {
		define(ctx, apps, "fresh", networks["blue"])
		asked := newPod(naming("fresh"))
		created, _ := create(ctx, asked)
		expectProtection(asked, created, true)
	})

	Context("when it does not respond as it should", func() {
		It("lets every pod start when it cannot decide", func(ctx context.Context) {
			respondInstead(unavailable)
			expectUnprotectedStart(ctx)
		})

		It("lets every pod start when it panics", func(ctx context.Context) {
			respondInstead(func(context.Context, admission.Request) admission.Response { panic("as if it had a bug") })
			expectUnprotectedStart(ctx)
		})

		It("lets every pod start when it never responds", func(ctx context.Context) {
			respondInstead(func(ctx context.Context, _ admission.Request) admission.Response {
				<-ctx.Done()
				return unavailable(ctx, admission.Request{})
			})
			expectUnprotectedStart(ctx)
		})

		It("blocks pods only where the administrator asked for it", func(ctx context.Context) {
			setFailurePolicy(ctx, admissionregistrationv1.Fail)
			DeferCleanup(func(ctx context.Context) { setFailurePolicy(ctx, admissionregistrationv1.Ignore) })
			respondInstead(unavailable)
			Eventually(func() error { return admin.Create(ctx, newPod(naming("blue")), client.DryRunAll) }).
				Should(MatchError(ContainSubstring(`failed calling webhook "protect.holdfast.dev"`)))
			created, calls := create(ctx, newPod())
			expectProtection(newPod(), created, false)
			Expect(calls).To(BeZero(), "a pod that names no network depends on no replica")
		})
	})

	It("lets every pod start with no replica alive", func(ctx context.Context) {
		replica.stop()
		DeferCleanup(func(ctx context.Context) {
			replica.start(protection.Rules{})
			awaitProtection(ctx)
		})
		for _, asked := range []*corev1.Pod{newPod(), newPod(naming("blue"))} {
			created, _ := create(ctx, asked)
			expectProtection(asked, created, false)
		}
	})

	Context("where the cluster network is guarded", Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			original := webhookConfiguration(ctx)
			replica.stop()
			replica.start(protection.Rules{GuardClusterNetwork: true})
			setConditions(ctx, rendered("guard-cluster-network").Webhooks[0].MatchConditions)
			Eventually(isProtected(ctx, func(p *corev1.Pod) { p.Annotations = nil })).Should(BeTrue())
			DeferCleanup(func(ctx context.Context) {
				replica.stop()
				replica.start(protection.Rules{})
				setConditions(ctx, original.Webhooks[0].MatchConditions)
				Eventually(isProtected(ctx, func(p *corev1.Pod) { p.Annotations = nil })).Should(BeFalse())
				awaitProtection(ctx)
			})
		})

		DescribeTable("protects every pod but the exempt", func(ctx context.Context, pod *corev1.Pod, protected bool) {
			created, calls := create(ctx, pod)
			expectProtection(pod, created, protected)
			if protected {
				Expect(calls).To(BeEquivalentTo(1), "calls of the webhook")
			} else {
				Expect(calls).To(BeZero(), "calls of the webhook")
			}
		},
			Entry("no annotations", newPod(), true),
			Entry("an unguarded network", newPod(naming("grey")), true),
			Entry("host network", newPod(onHostNetwork), false),
			Entry("a mirror pod", newPod(mirrorPod), false),
			Entry("opted out", newPod(annotate("holdfast.dev/guard", "off")), false),
			Entry("a namespace that opted out", newPod(in(quiet)), false),
			Entry("kube-system", newPod(in("kube-system")), false),
			Entry("the agents' namespace", newPod(in(agents)), false),
		)
	})
})

// expectUnprotectedStart creates a pod that the webhook is asked about in vain.
func expectUnprotectedStart(ctx context.Context) {
	GinkgoHelper()
	asked := newPod(naming("blue"))
	created, calls := create(ctx, asked)
	expectProtection(asked, created, false)
	Expect(calls).To(BeEquivalentTo(1), "calls of the webhook")
}

func setFailurePolicy(ctx context.Context, policy admissionregistrationv1.FailurePolicyType) {
	GinkgoHelper()
	live := webhookConfiguration(ctx)
	live.Webhooks[0].FailurePolicy = &policy
	Expect(admin.Update(ctx, live)).To(Succeed())
}

func setConditions(ctx context.Context, conditions []admissionregistrationv1.MatchCondition) {
	GinkgoHelper()
	live := webhookConfiguration(ctx)
	live.Webhooks[0].MatchConditions = conditions
	Expect(admin.Update(ctx, live)).To(Succeed())
}

// installForeignWebhook serves foreign for the pods labeled foreign=yes, after ours: webhooks run by the name of their configuration.
func installForeignWebhook(ctx context.Context) {
	GinkgoHelper()
	config := rendered()
	config.Name = "zz-foreign"
	hook := &config.Webhooks[0]
	hook.Name = "zz.foreign.example.com"
	hook.ClientConfig.Service.Path = new(foreignPath)
	hook.ReinvocationPolicy, hook.MatchConditions = nil, nil
	hook.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"foreign": "yes"}}
	options := &envtest.WebhookInstallOptions{
		MutatingWebhooks:   []*admissionregistrationv1.MutatingWebhookConfiguration{config},
		LocalServingHost:   hooks.LocalServingHost,
		LocalServingPort:   hooks.LocalServingPort,
		LocalServingCAData: hooks.LocalServingCAData,
		MaxTime:            time.Minute,
	}
	Expect(options.ModifyWebhookDefinitions()).To(Succeed())
	Expect(options.Install(rest.CopyConfig(plane.Config()))).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, config)).To(Succeed()) })
}
