// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scenarios are the failures of the field that this cluster can play, by what happens.
var scenarios = map[string]scenario{
	"a pod of a StatefulSet is force-deleted while its node's kubelet is frozen":            {harm: duplicate, capacity: 4, core: true, inherits: true, play: frozenKubelet},
	"whereabouts' reconciler runs while a pod has an address but no network-status yet":     {harm: duplicate, capacity: 1, core: true, pending: true, play: reconciledWhilePending},
	"the API server is away while a node runs CNI DEL, and whereabouts' control loop hangs": {harm: leak, capacity: 4, play: serverAwayAtDelete},
	"a node is killed hard and then declared out of service":                                {harm: leak, capacity: 4, core: true, play: killedThenOutOfService},
	"a Node object is deleted while its machine lives":                                      {harm: duplicate, capacity: 1, play: nodeDeleted},
	"a node is replaced under its name":                                                     {harm: leak, capacity: 4, play: replacedUnderItsName},
	"a node reboots while its pods are force-deleted":                                       {harm: leak, capacity: 4, play: reboot},
	"the taint manager evicts pods of a node that is cut off":                               {harm: duplicate, capacity: 1, play: evictedAcrossPartition},
	"a running pod loses its finalizers and is force-deleted while its kubelet is frozen":   {harm: duplicate, capacity: 4, play: stripped},
	"another account reports in a frozen kubelet's name that a pod ended":                   {harm: duplicate, capacity: 4, play: forgedReport},
}

// onFirst makes a StatefulSet whose pods prefer the first node.
func onFirst(set *appsv1.StatefulSet) {
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{first},
			}}},
		}},
	}}
}

// forceDelete is what people do with a pod that does not go.
func forceDelete(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	By("force-delete " + pod.Name)
	Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
}

// successor looks for what follows a deletion: without the guard the next pod of the name runs, with the address of the first;
// with it the old pod is held, so that there is none.
func (w *world) successor(ctx context.Context, old *corev1.Pod, address netip.Addr, guarded bool) {
	GinkgoHelper()
	if guarded {
		Eventually(w.isHeld(ctx, old)).WithContext(ctx).Should(BeTrue())
		Consistently(w.isHeld(ctx, old)).WithContext(ctx).Should(BeTrue(), "%s was released while its sandbox lives", old.Name)
		return
	}
	next, inherited := w.awaitPod(ctx, old.Name, old.UID)
	Expect(next.Spec.NodeName).NotTo(Equal(old.Spec.NodeName))
	Expect(inherited).To(Equal(address))
	w.bothAreSeen(ctx, address)
}

// bothAreSeen waits until the observer has seen an address twice, in sandboxes and on the wire.
func (w *world) bothAreSeen(ctx context.Context, address netip.Addr) {
	GinkgoHelper()
	Eventually(func() []string { return w.watch.Verdict().Duplicates }).WithContext(ctx).Should(ContainElement(HavePrefix(address.String() + ":")))
	Eventually(func() []string { return w.watch.Verdict().OnTheWire }).WithContext(ctx).Should(ContainElement(HavePrefix(address.String() + ":")))
}

func frozenKubelet(ctx context.Context, w *world, guarded bool) {
	w.forceDeletedWhileFrozen(ctx, guarded, nothing, nothing)
}

// forceDeletedWhileFrozen is a pod that is force-deleted while its node's kubelet is frozen. before comes while it runs, after once it is deleted.
func (w *world) forceDeletedWhileFrozen(ctx context.Context, guarded bool, before, after func(old *corev1.Pod)) {
	w.statefulSet(ctx, "web", 2, onFirst)
	w.awaitAll(ctx, "web", 2)
	old, address := w.awaitPod(ctx, "web-0")
	Expect(old.Spec.NodeName).To(Equal(first))
	before(old)
	breakNode(ctx, "freeze", first)
	cordon(ctx, first)
	forceDelete(ctx, old)
	after(old)
	w.successor(ctx, old, address, guarded)
	mendNode(ctx, "thaw", first)
	w.awaitPod(ctx, "web-0", old.UID)
}

func nothing(*corev1.Pod) {}

func serverAwayAtDelete(ctx context.Context, w *world, _ bool) {
	grace := int64(20)
	old := w.pinned(ctx, "deaf", first, "deaf")
	_, address := w.awaitPod(ctx, old.Name)
	By("delete it with " + fmt.Sprint(grace) + " s of grace, and cut its node off once the kubelet knows, before they are over")
	Expect(admin.Delete(ctx, old, client.GracePeriodSeconds(grace))).To(Succeed())
	Eventually(func(g Gomega) {
		var events corev1.EventList
		g.Expect(admin.List(ctx, &events, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(events.Items).To(ContainElement(And(HaveField("InvolvedObject.UID", old.UID), HaveField("Reason", "Killing"))))
	}).WithContext(ctx).Should(Succeed())
	withoutControlLoop(first)
	breakNode(ctx, "cut-off", first)
	Expect(w.watch.Present()).To(HaveKey(address), "the grace period was over before the node could be cut off")
	By("wait until the node has ended the sandbox")
	Eventually(w.watch.Present).WithContext(ctx).WithTimeout(deleteSoon).ShouldNot(HaveKey(address))
	mendNode(ctx, "reconnect", first)
	awaitReady(ctx, first, true)
}

func killedThenOutOfService(ctx context.Context, w *world, guarded bool) {
	if guarded {
		replicaElsewhere(ctx, first)
	}
	w.statefulSet(ctx, "web", 2, onFirst)
	w.awaitAll(ctx, "web", 2)
	old, _ := w.awaitPod(ctx, "web-0")
	lone := w.pinned(ctx, "lone", first)
	w.awaitPod(ctx, lone.Name)
	breakNode(ctx, "kill", first)
	awaitReady(ctx, first, false)
	if guarded {
		forceDelete(ctx, lone)
		Consistently(w.isHeld(ctx, lone)).WithContext(ctx).Should(BeTrue(), "no administrator has declared the node dead")
	}
	declareOut(ctx, first)
	w.awaitPod(ctx, "web-0", old.UID)
	if guarded {
		w.isGone(ctx, lone)
		Eventually(w.entries).WithContext(ctx).Should(HaveLen(2), "the successors' alone")
	}
	mendNode(ctx, "reboot", first)
	awaitReady(ctx, first, true)
}

func nodeDeleted(ctx context.Context, w *world, guarded bool) {
	w.statefulSet(ctx, "web", 1, onFirst)
	old, address := w.awaitPod(ctx, "web-0")
	breakNode(ctx, "freeze", first)
	By("delete the Node object")
	Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first}})).To(Succeed())
	DeferCleanup(registerAgain)
	w.successor(ctx, old, address, guarded)
	mendNode(ctx, "thaw", first)
	registerAgain(ctx)
	if guarded {
		// The first CNI DEL of the node that is back has no token yet, for it went with the Node object; the next one comes when the
		// kubelet removes the sandbox.
		w.isGone(ctx, old)
	}
	w.awaitPod(ctx, "web-0", old.UID)
}

// registerAgain restarts the first node's kubelet, which makes its Node object only when it starts.
func registerAgain(ctx context.Context) {
	GinkgoHelper()
	By("restart the kubelet of " + first)
	power(ctx, "kubelet", "stop", first)
	power(ctx, "kubelet", "start", first)
	awaitReady(ctx, first, true)
}

func replacedUnderItsName(ctx context.Context, w *world, guarded bool) {
	old := w.lostWithItsNode(ctx, guarded)
	breakNode(ctx, "replace", first, "--delete-node")
	awaitReady(ctx, first, true)
	w.isGone(ctx, old)
}

func reboot(ctx context.Context, w *world, guarded bool) {
	old := w.lostWithItsNode(ctx, guarded)
	breakNode(ctx, "reboot", first)
	awaitReady(ctx, first, true)
	w.isGone(ctx, old)
}

// lostWithItsNode is a pod that is force-deleted after its node was killed.
func (w *world) lostWithItsNode(ctx context.Context, guarded bool) *corev1.Pod {
	GinkgoHelper()
	pod := w.pinned(ctx, "lone", first)
	w.awaitPod(ctx, pod.Name)
	breakNode(ctx, "kill", first)
	forceDelete(ctx, pod)
	if guarded {
		Consistently(w.isHeld(ctx, pod)).WithContext(ctx).Should(BeTrue(), "no agent has reported that its sandbox is gone")
	}
	return pod
}

func evictedAcrossPartition(ctx context.Context, w *world, guarded bool) {
	victim := w.pinned(ctx, "victim", first)
	_, address := w.awaitPod(ctx, victim.Name)
	breakNode(ctx, "cut-off", first)
	awaitReady(ctx, first, false)
	By("wait for the taint manager to evict it")
	Eventually(w.isHeld(ctx, victim)).WithContext(ctx).WithTimeout(nodeSoon).Should(BeTrue())
	w.reconciled(ctx, address, guarded)
	mendNode(ctx, "reconnect", first)
	awaitReady(ctx, first, true)
	w.isGone(ctx, victim)
}

func reconciledWhilePending(ctx context.Context, w *world, guarded bool) {
	w.attachHeld(ctx)
	victim := w.pinnedTo(ctx, "victim", first, network+","+heldNetwork)
	By("wait for its address, which comes before the network that is held up")
	var address netip.Addr
	Eventually(func(g Gomega) {
		for found := range w.watch.Present() {
			if w.subnet.Contains(found) {
				address = found
			}
		}
		g.Expect(address.IsValid()).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
	w.reconciled(ctx, address, guarded)
	letGo(ctx)
	w.awaitPod(ctx, victim.Name)
	if !guarded {
		w.bothAreSeen(ctx, address)
	}
}

// isGone waits until the object of a UID is gone.
func (w *world) isGone(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var found corev1.Pod
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &found)
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		g.Expect(err != nil || found.UID != pod.UID).To(BeTrue(), "%s is still there: %+v", pod.Name, found.Status.Conditions)
	}).WithContext(ctx).WithTimeout(deleteSoon).Should(Succeed())
}
