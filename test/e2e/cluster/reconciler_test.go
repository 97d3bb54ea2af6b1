// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const reconciler = "whereabouts-reconciler"

// The schedules of the reconciler: that of the reports of the field, and that of its installation.
const everyMinute, onceADay = "* * * * *", "30 4 * * *"

// reconcilesOnNodes is true where the reconciler is a part of the control loop on every node, as it is up to whereabouts 0.8.
func reconcilesOnNodes(ctx context.Context) bool {
	GinkgoHelper()
	err := admin.Get(ctx, client.ObjectKey{Namespace: poolNamespace, Name: reconciler}, &appsv1.Deployment{})
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err != nil
}

func schedule(ctx context.Context, expression string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var schedule corev1.ConfigMap
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: poolNamespace, Name: "whereabouts-config"}, &schedule)).To(Succeed())
		schedule.Data["cron-expression"] = expression
		g.Expect(admin.Update(ctx, &schedule)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
}

// turnReconciler turns whereabouts' own reconciler on or off. It runs every minute on the node that no spec breaks.
func turnReconciler(ctx context.Context, on bool) {
	GinkgoHelper()
	By(fmt.Sprintf("let whereabouts' reconciler run: %t", on))
	if reconcilesOnNodes(ctx) {
		schedule(ctx, map[bool]string{true: everyMinute, false: onceADay}[on])
		restartControlLoop(ctx)
		return
	}
	schedule(ctx, everyMinute)
	var replicas int32
	if on {
		replicas = 1
	}
	key := client.ObjectKey{Namespace: poolNamespace, Name: reconciler}
	Eventually(func(g Gomega) {
		var deployment appsv1.Deployment
		g.Expect(admin.Get(ctx, key, &deployment)).To(Succeed())
		deployment.Spec.Replicas = &replicas
		deployment.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: second}
		g.Expect(admin.Update(ctx, &deployment)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
	Eventually(func(g Gomega) {
		var deployment appsv1.Deployment
		g.Expect(admin.Get(ctx, key, &deployment)).To(Succeed())
		g.Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
		g.Expect(deployment.Status.ReadyReplicas).To(Equal(replicas))
		g.Expect(deployment.Status.Replicas).To(Equal(replicas))
	}).WithContext(ctx).Should(Succeed())
}

// controlLoops are the pods of whereabouts' DaemonSet on the node that no spec breaks.
func controlLoops(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(poolNamespace), client.MatchingLabels{"app.kubernetes.io/name": "whereabouts"})).To(Succeed())
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName != second })
}

// restartControlLoop has the control loop read its schedule.
func restartControlLoop(ctx context.Context) {
	GinkgoHelper()
	before := controlLoops(ctx)
	for i := range before {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, &before[i]))).To(Succeed())
	}
	Eventually(func() []corev1.Pod { return controlLoops(ctx) }).WithContext(ctx).Should(ConsistOf(And(
		Not(HaveField("UID", BeElementOf(uidsOf(before)))),
		HaveField("Status.Conditions", ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue)))))))
}

func uidsOf(pods []corev1.Pod) []types.UID {
	var uids []types.UID
	for i := range pods {
		uids = append(uids, pods[i].UID)
	}
	return uids
}

// reconcilerLog is the end of what the reconciler has printed.
func reconcilerLog(ctx context.Context) string {
	GinkgoHelper()
	of := []string{"deployment/" + reconciler}
	if reconcilesOnNodes(ctx) {
		pods := controlLoops(ctx)
		Expect(pods).NotTo(BeEmpty())
		of = []string{pods[0].Name, "--container=control-loop"}
	}
	return run(ctx, kubectl(), append([]string{"-n", poolNamespace, "logs", "--tail=200"}, of...)...)
}

// reconciled lets the reconciler run while the pool's only address is in use, and a second pod wait for that address: without
// the guard it gets it, with the guard the reconciler is refused.
func (w *world) reconciled(ctx context.Context, address netip.Addr, guarded bool) {
	GinkgoHelper()
	next := w.pinned(ctx, "next", second)
	turnReconciler(ctx, true)
	DeferCleanup(func(ctx context.Context) { turnReconciler(ctx, false) })
	if !guarded {
		var inherited netip.Addr
		Eventually(func(g Gomega) {
			var pod corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(next), &pod)).To(Succeed())
			inherited = addressOf(g, &pod)
		}).WithContext(ctx).WithTimeout(reconcilerSoon).Should(Succeed())
		Expect(inherited).To(Equal(address))
		return
	}
	By("wait for the reconciler to be refused")
	Eventually(func() string { return reconcilerLog(ctx) }).WithContext(ctx).WithTimeout(reconcilerSoon).Should(ContainSubstring("denied the request"))
	Expect(w.entries(ctx)).To(HaveLen(1))
	Expect(admin.Delete(ctx, next)).To(Succeed())
}

// heldNetwork is a network whose plugin waits while a file is there, as a slow one does.
const (
	heldNetwork = "held"
	holdFile    = "/run/hf-hold"
	holdPlugin  = "/opt/cni/bin/hf-hold"
	holdScript  = `#!/bin/sh
cat >/dev/null
while [ "$CNI_COMMAND" = ADD ] && [ -e ` + holdFile + ` ]; do sleep 0.2; done
if [ "$CNI_COMMAND" = VERSION ]; then echo '{"cniVersion":"0.3.1","supportedVersions":["0.3.1"]}'; exit; fi
if [ "$CNI_COMMAND" = ADD ]; then echo '{"cniVersion":"0.3.1","interfaces":[],"ips":[]}'; fi
`
)

// attachHeld makes the network and lets its plugin wait on the first node.
func (w *world) attachHeld(ctx context.Context) {
	GinkgoHelper()
	onNode(ctx, first, "touch "+holdFile+"; cat >"+holdPlugin+" <<'END'\n"+holdScript+"END\nchmod +x "+holdPlugin)
	DeferCleanup(func(ctx context.Context) { onNode(ctx, first, "rm -f "+holdFile+" "+holdPlugin) })
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: heldNetwork}}
	definition.Spec.Config = `{"cniVersion":"0.3.1","name":"held","type":"hf-hold"}`
	Expect(admin.Create(ctx, definition)).To(Succeed())
}

func letGo(ctx context.Context) {
	GinkgoHelper()
	By("let the slow network come up")
	onNode(ctx, first, "rm -f "+holdFile)
}

// onNode runs a shell line in a node's namespaces and gives what it printed.
func onNode(ctx context.Context, node, line string) string {
	GinkgoHelper()
	return power(ctx, "exec", node, "--", "sh", "-c", line)
}
