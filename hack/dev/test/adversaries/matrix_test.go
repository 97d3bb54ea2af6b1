// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// addDelay is how long a pod stays Pending with its addresses, so that whereabouts' reconciler comes by.
const addDelay = "1200ms"

const ordered, parallel = appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement

// web is the StatefulSet of every story.
const web = "web"

// matrix is what is done to a StatefulSet that has a pool with just as many addresses as it has pods at most. The one that
// waits for a full minute comes first.
var matrix = []*story{
	{name: "of whereabouts #162, with two networks, and a reconciler that runs every minute", sizes: []int{5, 5}, tell: churned(ordered, 5, scheduled)},
	{name: "scaled up and down by 5, 3, 3, 1 and 4, in order", sizes: []int{5}, tell: churned(ordered, 5, scaled(5, 2, 5, 4, 0))},
	{name: "scaled up and down by 5, 3, 3, 1 and 4, side by side", sizes: []int{5}, tell: churned(parallel, 5, scaled(5, 2, 5, 4, 0))},
	{name: "scaled down while it still goes up, and up while it still goes down, in order", sizes: []int{3}, tell: churned(ordered, 3, turned)},
	{name: "scaled down while it still goes up, and up while it still goes down, side by side", sizes: []int{4}, tell: churned(parallel, 4, turned)},
	{name: "rolled", sizes: []int{3}, tell: churned(parallel, 3, rolled)},
	{name: "of which pods are deleted by force, running ones and Pending ones", sizes: []int{3}, tell: churned(parallel, 3, forced)},
	{name: "deleted before its pods, and made again under its name", sizes: []int{3}, tell: churned(parallel, 3, remade(metav1.DeletePropagationBackground))},
	{name: "deleted after its pods, and made again under its name", sizes: []int{3}, tell: churned(ordered, 3, remade(metav1.DeletePropagationForeground))},
	{name: "whose node is drained", sizes: []int{3}, tell: churned(parallel, 3, drained)},
	{name: "that hands its addresses to another one", sizes: []int{3}, tell: churned(parallel, 3, handed)},
}

// act is what is done to the StatefulSet, which has no pods yet; it may have so many.
type act func(ctx context.Context, w *world, replicas int)

// churned does what is to be done to the StatefulSet while whereabouts' reconciler runs on its pools.
func churned(policy appsv1.PodManagementPolicyType, replicas int, act act) func(context.Context, *world) {
	return func(ctx context.Context, w *world) {
		reconciler, stop := w.haunt(ctx)
		defer stop()
		w.create(ctx, w.newSet(web, policy, 0, api.AddDelayAnnotation, addDelay))
		act(ctx, w, replicas)
		w.scale(ctx, web, replicas)
		w.awaitServed(ctx, web) // whatever was done, all of them run in the end
		w.scale(ctx, web, 0)
		w.awaitNothingLeft(ctx)
		stop()
		w.expectNoDuplicate(ctx)
		w.expectNoRefusedDEL(ctx)
		w.Expect(reconciler.addresses()).To(BeEmpty(), "every address was in use, or given back by its own DEL or by Holdfast")
	}
}

const refused = string(v1alpha1.ReasonUnsafeReleaseRefused)

// scaled goes to each of these numbers and waits until it is there.
func scaled(to ...int) act {
	return func(ctx context.Context, w *world, _ int) {
		for _, n := range to {
			w.scale(ctx, web, n)
			w.awaitServed(ctx, web)
		}
	}
}

// turned turns back before it is there.
func turned(ctx context.Context, w *world, replicas int) {
	w.scale(ctx, web, replicas)
	w.Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(w.entries(ctx, g)).NotTo(BeEmpty())
		g.Expect(len(w.podsOf(ctx, g, web))).To(BeNumerically(">", 1))
	}).Should(Succeed())
	w.scale(ctx, web, 1)
	w.scale(ctx, web, replicas)
	w.awaitServed(ctx, web)
	w.scale(ctx, web, 1)
	w.Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(w.podsOf(ctx, g, web)).To(ContainElement(HaveField("DeletionTimestamp", Not(BeNil()))))
	}).Should(Succeed())
}

func rolled(ctx context.Context, w *world, replicas int) {
	w.scale(ctx, web, replicas)
	w.awaitServed(ctx, web)
	w.roll(ctx, web, "two")
	w.awaitServed(ctx, web)
}

// forced deletes by force a pod that runs and one whose network-status is still to come; then all of them at once.
func forced(ctx context.Context, w *world, replicas int) {
	w.scale(ctx, web, replicas)
	pending := w.awaitPending(ctx, "web-1")
	w.delete(ctx, pending, client.GracePeriodSeconds(0))
	w.awaitGone(ctx, pending)
	running := w.awaitServed(ctx, web)
	w.delete(ctx, running["web-2"], client.GracePeriodSeconds(0))
	w.awaitGone(ctx, running["web-2"])
	for _, pod := range w.awaitServed(ctx, web) {
		w.delete(ctx, pod, client.GracePeriodSeconds(0))
	}
}

// remade deletes the StatefulSet and makes it again at once.
func remade(how metav1.DeletionPropagation) act {
	return func(ctx context.Context, w *world, replicas int) {
		again := w.newSet(web, ordered, replicas, api.AddDelayAnnotation, addDelay)
		w.scale(ctx, web, replicas)
		before := w.awaitServed(ctx, web)
		w.Expect(admin.Delete(ctx, &appsv1.StatefulSet{ObjectMeta: again.ObjectMeta}, client.PropagationPolicy(how))).To(Succeed())
		w.Eventually(ctx, func(ctx context.Context) error { return admin.Create(ctx, again.DeepCopy()) }).
			Should(Succeed(), "the name is taken until the StatefulSet is gone")
		for _, pod := range before {
			w.awaitGone(ctx, pod)
		}
		w.awaitServed(ctx, web)
	}
}

// drained drains a node of the StatefulSet's pods with kubectl.
func drained(ctx context.Context, w *world, replicas int) {
	w.scale(ctx, web, replicas)
	w.awaitServed(ctx, web)
	const node = "node-b"
	kubectl := func(args ...string) {
		command := exec.CommandContext(ctx, filepath.Join(theCluster.ControlPlane().AssetsDir(), "kubectl"), append([]string{"--kubeconfig", theCluster.Kubeconfig()}, args...)...)
		output, err := command.CombinedOutput()
		w.Expect(err).NotTo(HaveOccurred(), "kubectl %v: %s", args, output)
	}
	kubectl("drain", node, "--pod-selector", setLabel+"="+w.namespace+"."+web, "--timeout", patience.String())
	for _, pod := range w.awaitServed(ctx, web) {
		w.Expect(pod.Spec.NodeName).NotTo(Equal(node))
	}
	kubectl("uncordon", node)
}

// handed scales another StatefulSet of the same pool up while this one goes down.
func handed(ctx context.Context, w *world, replicas int) {
	w.create(ctx, w.newSet("other", parallel, 0, api.AddDelayAnnotation, addDelay))
	w.scale(ctx, web, replicas)
	w.awaitServed(ctx, web)
	w.scale(ctx, "other", replicas)
	w.scale(ctx, web, 0)
	w.awaitServed(ctx, "other")
	w.scale(ctx, "other", 0)
}

// schedule is whereabouts' reconciler by its own schedule, on all pools.
var schedule *runs

// scheduled has every pod Pending when the reconciler's own schedule comes: at the next full minute.
func scheduled(ctx context.Context, w *world, replicas int) {
	next := time.Now().Add(15 * time.Second).Truncate(time.Minute).Add(time.Minute)
	const slow = "slow"
	w.create(ctx, w.newSet(slow, parallel, replicas, api.AddDelayAnnotation, time.Until(next.Add(4*time.Second)).Round(time.Second).String()))
	w.Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(w.entries(ctx, g)).To(HaveLen(2 * replicas)) }).Should(Succeed())
	before := w.entries(ctx, w)
	w.Eventually(ctx, schedule.errors).Should(ContainElement(MatchError(ContainSubstring(refused))))
	w.awaitServed(ctx, slow)
	w.Expect(w.entries(ctx, w)).To(Equal(before), "every pod has the addresses that it had while it was Pending")
	w.scale(ctx, slow, 0)
}
