// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"strings"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// harm is what a scenario does to a cluster without Holdfast.
type harm int

const (
	// duplicate: two live sandboxes have one address.
	duplicate harm = iota + 1
	// leak: an address is allocated in its pool though no sandbox has it, and stays so.
	leak
)

// scenario is a failure of the field. It mends the nodes that it breaks before it returns.
type scenario struct {
	harm harm
	// capacity is how many addresses the pool has.
	capacity int
	// core reports whether it belongs to what continuous integration runs.
	core bool
	// inherits: the harm is that a pod inherits the entry of another one of its name. pending: it comes from a reconciler that frees entries of pods
	// without a network-status. An older whereabouts has neither (hack/whereabouts).
	inherits, pending bool

	play func(ctx context.Context, w *world, guarded bool)
}

// The labels of specs: core is what continuous integration runs, nodes needs power over the nodes.
const (
	core  = "core"
	nodes = "nodes"

	// interfaces: entries have interfaces, as they do from whereabouts 0.8 on.
	interfaces = "interfaces"
)

// labels of a scenario's two specs. What continuous integration shows without the guard are duplicates: a leak takes the time that
// a dead node takes to be found so.
func (s scenario) labels(guarded bool) Labels {
	labels := labelsOf(s.core && (guarded || s.harm == duplicate), true)
	if s.pending || s.inherits && !guarded {
		labels = append(labels, interfaces)
	}
	return labels
}

func labelsOf(isCore, breaksNodes bool) Labels {
	var labels Labels
	if isCore {
		labels = append(labels, core)
	}
	if breaksNodes {
		labels = append(labels, nodes)
	}
	return labels
}

// judge ends a world's workloads and gives the verdict.
func (s scenario) judge(ctx context.Context, w *world, guarded bool) {
	GinkgoHelper()
	w.deleteAll(ctx)
	if guarded {
		w.isClean(ctx)
		return
	}
	DeferCleanup(w.emptyPools)
	w.judged = &judged{left: len(w.entries(ctx))}
	verdict := w.watch.Verdict()
	switch s.harm {
	case duplicate:
		Expect(verdict.Duplicates).NotTo(BeEmpty(), "the harm has to be real:\n%s", verdict)
	case leak:
		Consistently(w.entries).WithContext(ctx).ShouldNot(BeEmpty(), "the harm has to be real: no pod is left, and so no entry should be")
	}
}

// isClean is what holds after every spec with the guard: no two sandboxes ever had one address, and in the end there
// is no entry without a sandbox, no finalizer and no record.
func (w *world) isClean(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(func(ctx context.Context) { w.judged = &judged{left: len(w.entries(ctx))} })
	Eventually(w.entries).WithContext(ctx).Should(BeEmpty(), "entries that no sandbox has")
	Eventually(w.records).WithContext(ctx).Should(BeEmpty(), "records of pods that are gone")
	Expect(w.finalizers(ctx)).To(BeEmpty())
	if w.watch == nil {
		return
	}
	Eventually(w.watch.Present).WithContext(ctx).ShouldNot(HaveKey(Satisfy(w.subnet.Contains)), "addresses without a pod")
	verdict := w.watch.Verdict()
	Expect(verdict.Duplicates).To(BeEmpty())
	Expect(verdict.OnTheWire).To(BeEmpty())
	Expect(verdict.Failures).To(BeEmpty(), "what the observer could not see, it cannot judge")
	Expect(verdict.Sandboxes).To(BeNumerically(">", 0), "the observer has to have seen something")
}

// finalizers are the pods of the namespace that have ours.
func (w *world) finalizers(ctx context.Context) []string {
	GinkgoHelper()
	var held []string
	for _, pod := range w.pods(ctx) {
		for _, finalizer := range pod.Finalizers {
			if strings.HasPrefix(finalizer, v1alpha1.Finalizer) {
				held = append(held, pod.Name)
			}
		}
	}
	return held
}

// emptyPools takes away what a scenario without the guard has left.
func (w *world) emptyPools(ctx context.Context) {
	GinkgoHelper()
	var pools whereaboutsv1alpha1.IPPoolList
	Expect(admin.List(ctx, &pools, client.InNamespace(poolNamespace))).To(Succeed())
	for i := range pools.Items {
		if strings.HasPrefix(pools.Items[i].Spec.Range, w.subnet.Addr().String()) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, &pools.Items[i]))).To(Succeed())
		}
	}
	var reservations whereaboutsv1alpha1.OverlappingRangeIPReservationList
	Expect(admin.List(ctx, &reservations, client.InNamespace(poolNamespace))).To(Succeed())
	for i := range reservations.Items {
		if strings.HasPrefix(reservations.Items[i].Spec.PodRef, w.namespace+"/") {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, &reservations.Items[i]))).To(Succeed())
		}
	}
}

// isHeld reports whether a pod is being deleted and still there.
func (w *world) isHeld(ctx context.Context, pod *corev1.Pod) func() bool {
	return func() bool {
		var found corev1.Pod
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &found)
		return err == nil && found.UID == pod.UID && found.DeletionTimestamp != nil
	}
}
