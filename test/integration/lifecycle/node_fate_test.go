// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// nodeGoneDelay is long enough for a sign of life to be shown within it.
const nodeGoneDelay = 4 * time.Second

func withNodeGone(action configv1alpha1.NodeGoneAction) options {
	return options{configure: func(c *configv1alpha1.ManagerConfiguration) {
		c.Delays.NodeGoneDelay = &metav1.Duration{Duration: nodeGoneDelay}
		c.Delays.NodeGoneAction = action
	}}
}

var _ = Describe("The fate of a node", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	// podOnDeletedNode is a pod as PodGC leaves it: deleted, and Failed by another hand than the kubelet's.
	podOnDeletedNode := func(ctx context.Context) *corev1.Pod {
		GinkgoHelper()
		pod := w.run(ctx, "web", 1)
		w.deleteNode(ctx, w.node)
		writePhase(ctx, pod, corev1.PodFailed, "", "kube-controller-manager")
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeGone)))
		return pod
	}

	It("I1 I2: takes the word of a deleted Node only after a delay without a sign of life (row 6)", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneRelease))
		pod := podOnDeletedNode(ctx)
		Expect(w.entries(ctx)).To(HaveLen(1))
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I1: goes on holding for as long as the kubelet renews the Lease of the node that is gone", func(ctx context.Context) {
		startManager(ctx, options{configure: func(c *configv1alpha1.ManagerConfiguration) {
			const longer = 2 * nodeGoneDelay // a busy machine may be late with a renewal
			c.Delays.NodeGoneDelay, c.Delays.NodeGoneAction = &metav1.Duration{Duration: longer}, configv1alpha1.NodeGoneRelease
		}})
		pod := podOnDeletedNode(ctx)
		for range 6 {
			w.renewLease(ctx)
			Consistently(func() int { return len(w.entries(ctx)) }).WithTimeout(nodeGoneDelay / 2).Should(Equal(1))
		}
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("I3: holds while the machine is registered under another name", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneRelease))
		pod := podOnDeletedNode(ctx)
		w.createNode(ctx, "renamed-"+w.namespace, "machine-"+w.namespace)
		Consistently(func() int { return len(w.entries(ctx)) }).WithTimeout(3 * nodeGoneDelay).Should(Equal(1))
		Expect(recordOf(ctx, Default, string(pod.UID)).Spec.NodeGone.SignOfLife).To(ContainSubstring("renamed-" + w.namespace))
		w.deleteNode(ctx, "renamed-"+w.namespace)
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("counts on from what was written down when the manager is restarted", func(ctx context.Context) {
		first := startManager(ctx, options{})
		pod := podOnDeletedNode(ctx)
		var since metav1.Time
		Eventually(func(g Gomega) {
			gone := recordOf(ctx, g, string(pod.UID)).Spec.NodeGone
			g.Expect(gone).NotTo(BeNil())
			since = gone.Since
		}).Should(Succeed())
		first.Stop()
		startManager(ctx, options{})
		Consistently(func(g Gomega) metav1.Time { return recordOf(ctx, g, string(pod.UID)).Spec.NodeGone.Since }).Should(Equal(since))
	})

	It("never takes a deleted Node for proof where the administrator said Hold", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneHold))
		podOnDeletedNode(ctx)
		Consistently(func() int { return len(w.entries(ctx)) }).WithTimeout(2 * nodeGoneDelay).Should(Equal(1))
	})

	It("I3: re-addresses the record of a machine that registers again, and believes its kubelet (row 7)", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneRelease))
		pod := w.run(ctx, "web", 1)
		w.deleteNode(ctx, w.node)
		node := w.createNode(ctx, w.node, "machine-"+w.namespace)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(recordOf(ctx, g, string(pod.UID)).Spec.Sandboxes[0].Node.UID).To(Equal(node.UID))
		}).Should(Succeed())
		Expect(w.entries(ctx)).To(HaveLen(1))
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I1: takes nothing from a reboot alone: the machine's kubelet ends what the old boot left (row 8)", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneRelease))
		pod := w.run(ctx, "web", 1)
		w.reboot(ctx)
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		Consistently(func() int { return len(w.entries(ctx)) }).WithTimeout(2 * nodeGoneDelay).Should(Equal(1))
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("I2 I3: releases what a replaced machine held after the delay, and lets the pod go that nobody will ever report on (row 9)", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneRelease))
		pod := podOnDeletedNode(ctx)
		w.createLaterNode(ctx, pod, "another-machine")
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeReplaced)))
		Expect(w.entries(ctx)).To(HaveLen(1))
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I2: lets a pod go that held nothing on a node that is gone", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneRelease))
		pod := w.create(ctx, "starting")
		w.deleteNode(ctx, w.node)
		forceDelete(ctx, pod)
		Eventually(func() bool {
			return saysWhy(ctx, pod, v1alpha1.ReasonNodeGone)() || (secondpass.On() && isGone(ctx, pod))
		}).Should(BeTrue())
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Eventually(func(g Gomega) {
			var records v1alpha1.IPAllocationList
			g.Expect(admin.List(ctx, &records)).To(Succeed())
			g.Expect(records.Items).To(BeEmpty())
		}).Should(Succeed())
	})

	It("I2: lets a pod go whose end PodGC wrote, once a kubelet that began after its deletion is there (row 16)", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "starting")
		w.deleteNode(ctx, w.node)
		writePhase(ctx, pod, corev1.PodFailed, "", "kube-controller-manager")
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeGone)))
		w.createLaterNode(ctx, pod, "machine-"+w.namespace)
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})
})

func (w *world) deleteNode(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

// createLaterNode registers a machine in a later second than the one in which the pod's deletion was asked for.
func (w *world) createLaterNode(ctx context.Context, pod *corev1.Pod, machine string) {
	GinkgoHelper()
	var live corev1.Pod
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
	Eventually(time.Now).Should(BeTemporally(">=", live.DeletionTimestamp.Add(time.Second)))
	w.createNode(ctx, w.node, machine)
}

// renewLease is a kubelet's heartbeat, which goes on when its Node object is gone.
func (w *world) renewLease(ctx context.Context) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: w.node}}
	err := admin.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if err != nil {
		Expect(admin.Create(ctx, lease)).To(Succeed())
		return
	}
	Expect(admin.Update(ctx, lease)).To(Succeed())
}

// reboot gives the world's machine another boot ID.
func (w *world) reboot(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", w.node), &node); err != nil {
			return err
		}
		node.Status.NodeInfo.BootID += "-again"
		return admin.Status().Update(ctx, &node)
	}).Should(Succeed())
}
