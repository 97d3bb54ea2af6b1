// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	system  = "holdfast-system"
	manager = "holdfast-manager"
)

// The order is the point: first the harm, then the installation, then its absence, then the uninstallation.
var _ = Describe("On a real cluster", Ordered, ContinueOnFailure, func() {
	names := slices.Sorted(maps.Keys(scenarios))

	BeforeAll(func(ctx context.Context) {
		if !powered {
			return
		}
		awaitReady(ctx, first, true)
		awaitReady(ctx, second, true)
		reconcileEveryMinute(ctx)
		scaleReconciler(ctx, 0)
	})

	Context("without Holdfast", func() {
		for _, name := range names {
			It(name+": the harm is real", scenarios[name].labels(), func(ctx context.Context) { play(ctx, scenarios[name], false) })
		}
	})

	It("installs with kubectl apply -k", labelsOf(true, false), func(ctx context.Context) { install(ctx) })

	Context("with Holdfast", func() {
		for _, name := range names {
			It(name+": no harm", scenarios[name].labels(), func(ctx context.Context) { play(ctx, scenarios[name], true) })
		}
		for _, name := range slices.Sorted(maps.Keys(guardedSpecs)) {
			spec := guardedSpecs[name]
			It(name, labelsOf(spec.core, spec.nodes), func(ctx context.Context) {
				w := newWorld(ctx, spec.capacity)
				spec.play(ctx, w)
				w.deleteAll(ctx)
				w.isClean(ctx)
			})
		}
	})

	It("uninstalls with one command, which proves that no pod is held", labelsOf(true, false), func(ctx context.Context) { uninstall(ctx) })
})

func play(ctx context.Context, s scenario, guarded bool) {
	GinkgoHelper()
	w := newWorld(ctx, s.capacity)
	s.play(ctx, w, guarded)
	s.judge(ctx, w, guarded)
}

// install installs what this tree builds, with the commands of the installation's page.
func install(ctx context.Context) {
	GinkgoHelper()
	run(ctx, kubectl, "apply", "--server-side", "-k", "test/e2e/cluster/overlay")
	awaitManager(ctx)
	By("wait until a pod of a guarded network is stamped")
	w := newWorld(ctx, 1)
	Eventually(func(g Gomega) {
		probe := w.pod("probe")
		pod := &corev1.Pod{ObjectMeta: probe.ObjectMeta, Spec: probe.Spec}
		pod.Namespace, pod.Name = w.namespace, "probe"
		g.Expect(admin.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		g.Expect(pod.Finalizers).To(ConsistOf(HavePrefix("holdfast.dev/")))
	}).WithContext(ctx).WithTimeout(installSoon).Should(Succeed())
}

// uninstall takes Holdfast away, while it holds a pod where one can be made to be held, and looks for whatever is left of it.
func uninstall(ctx context.Context) {
	GinkgoHelper()
	w := newWorld(ctx, 2)
	if powered {
		pod := w.pinned(ctx, "held", first)
		w.awaitPod(ctx, pod.Name)
		breakNode(ctx, "freeze", first)
		forceDelete(ctx, pod)
		Eventually(w.isHeld(ctx, pod)).WithContext(ctx).Should(BeTrue())
		defer w.isGone(ctx, pod)
	}
	AddReportEntry("manager uninstall", run(ctx, "bin/manager", "uninstall", "--yes"))
	Expect(ours(ctx)).To(BeEmpty())
	DeferCleanup(w.emptyPools)
}

// ours is everything in the cluster whose name or type is Holdfast's.
func ours(ctx context.Context) []string {
	GinkgoHelper()
	var found []string
	for kind := range strings.FieldsSeq(run(ctx, kubectl, "api-resources", "--verbs=list", "-o", "name")) {
		if kind == "events" || kind == "events.events.k8s.io" {
			continue
		}
		for object := range strings.FieldsSeq(run(ctx, kubectl, "get", kind, "-A", "-o", "name", "--ignore-not-found")) {
			if strings.Contains(object, "holdfast") {
				found = append(found, object)
			}
		}
	}
	return found
}
