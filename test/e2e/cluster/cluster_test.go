// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

const (
	system  = "holdfast-system"
	manager = "holdfast-manager"
)

// managerLabels select the manager's pods.
var managerLabels = client.MatchingLabels{"app.kubernetes.io/component": "manager"}

// The order is the point: first the harm, then the installation, then its absence, then the uninstallation.
var _ = Describe("On a real cluster", Ordered, ContinueOnFailure, func() {
	names := slices.Sorted(maps.Keys(scenarios))

	BeforeAll(func(ctx context.Context) {
		if !powered {
			return
		}
		awaitReady(ctx, first, true)
		awaitReady(ctx, second, true)
		turnReconciler(ctx, false)
	})

	Context(unguarded, func() {
		for _, name := range names {
			It(name+": the harm is real", scenarios[name].labels(false), func(ctx context.Context) { play(ctx, scenarios[name], false) })
		}
	})

	It("installs with kubectl apply -k", labelsOf(true, false), func(ctx context.Context) { install(ctx) })

	Context("with Holdfast", func() {
		for _, name := range names {
			It(name+": no harm", scenarios[name].labels(true), func(ctx context.Context) { play(ctx, scenarios[name], true) })
		}
		for _, specs := range specs() {
			for _, name := range slices.Sorted(maps.Keys(specs)) {
				It(name, labelsOf(specs[name].core, specs[name].nodes), specs[name].versions, func(ctx context.Context) { playGuarded(ctx, specs[name]) })
			}
		}
	})

	It("uninstalls with one command, which proves that no pod is held", labelsOf(true, false), func(ctx context.Context) { uninstall(ctx) })
})

// specs are those of the installation's evidence.
func specs() []map[string]guardedSpec {
	if evidence() == configv1alpha1.EvidenceKubelet {
		return []map[string]guardedSpec{guardedSpecs, pluginSpecs, componentSpecs, nodeResourceSpecs}
	}
	return []map[string]guardedSpec{guardedSpecs, agentSpecs, pluginSpecs, componentSpecs, nodeResourceSpecs}
}

func play(ctx context.Context, s scenario, guarded bool) {
	GinkgoHelper()
	w := newWorld(ctx, s.capacity)
	s.play(ctx, w, guarded)
	s.judge(ctx, w, guarded)
}

func playGuarded(ctx context.Context, s guardedSpec) {
	GinkgoHelper()
	w := newWorld(ctx, s.capacity)
	s.play(ctx, w)
	w.deleteAll(ctx)
	w.isClean(ctx)
}

// install installs what this tree builds, with the commands of the installation's page.
func install(ctx context.Context) {
	GinkgoHelper()
	run(ctx, kubectl(), "apply", "--server-side", "-k", overlayFolder(ctx))
	awaitManager(ctx)
	awaitAgents(ctx)
	By("wait until a pod of a guarded network is protected")
	newWorld(ctx, 1).isProtected(ctx)
}

// uninstall removes Holdfast, while it holds a pod where possible, and looks for leftovers.
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
	// A replica on a frozen node never stops: the account loses its rights instead.
	AddReportEntry("manager uninstall", run(ctx, "bin/manager", "uninstall", "--yes", "--stop-timeout=20s"))
	Expect(ours(ctx)).To(BeEmpty())
	DeferCleanup(w.emptyPools)
}

// ours is everything in the cluster whose name or type is Holdfast's.
func ours(ctx context.Context) []string {
	GinkgoHelper()
	var found []string
	for kind := range strings.FieldsSeq(run(ctx, kubectl(), "api-resources", "--verbs=list", "-o", "name")) {
		if kind == "events" || kind == "events.events.k8s.io" {
			continue
		}
		for object := range strings.FieldsSeq(run(ctx, kubectl(), "get", kind, "-A", "-o", "name", "--ignore-not-found")) {
			if strings.Contains(object, "holdfast") {
				found = append(found, object)
			}
		}
	}
	return found
}
