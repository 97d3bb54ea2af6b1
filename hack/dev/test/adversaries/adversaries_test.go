// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/token"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// replicas of a StatefulSet, and addresses of its pool, where it is told of nothing else.
const replicas = 5

// One cluster, in this order: it gets its guard when it has shown what happens without.
var _ = Describe("whereabouts' reconciler and its pod control loop", Ordered, ContinueOnFailure, func() {
	loops := controlLoops{}

	BeforeAll(func(ctx context.Context) {
		DeferCleanup(func() { loops.each(func(l controlLoop) error { return l.Stop(0) }) })
		loops.start(ctx)
	})

	Context("without the guard", func() {
		reported := &story{sizes: []int{replicas, replicas}, tell: func(ctx context.Context, w *world) {
			addresses := w.firstPending(ctx)
			w.Expect(w.reconcile(ctx)).To(Succeed())
			w.Expect(w.entries(ctx, w)).To(BeEmpty())
			w.awaitShared(ctx, addresses)
			w.scale(ctx, web, 0)
			w.awaitNothingLeft(ctx)
		}}
		BeforeAll(func(ctx context.Context) { begin(ctx, []*story{reported}) })

		It("pods that were deleted while the control loops were away leave their addresses, and a full pool starts nobody", func(ctx context.Context) {
			w := newWorld(ctx, Default, replicas)
			mend := w.leave(ctx, loops.all()...)
			left := w.entries(ctx, w)
			mend(ctx)
			loops.start(ctx)
			next := w.newSet("next", parallel, 1)
			w.create(ctx, next)
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(w.events(ctx, g)).To(ContainElement(HaveField("Event", api.EventAddFailed)))
			}).Should(Succeed())
			Expect(w.entries(ctx, w)).To(Equal(left), "the control loops know of no pod that is gone")
			Expect(w.reconcile(ctx)).To(Succeed())
			w.awaitServed(ctx, "next") // after a day
			w.scale(ctx, "next", 0)
			w.awaitNothingLeft(ctx)
		})

		DescribeTable("a control loop that lags behind frees the address of a pod that is being deleted, and another pod gets it",
			func(ctx context.Context, first, second string) {
				w, successor, address := heard(ctx, loops, first, second, func(g Gomega, ctx context.Context, w *world) {
					g.Expect(w.entries(ctx, g)).To(BeEmpty())
				})
				w.create(ctx, w.newSet("next", parallel, 1))
				w.awaitServed(ctx, "next")
				Expect(w.users(ctx, w, address)).To(Equal([]string{"web-0", "next-0"}))
				w.scale(ctx, web, 0)
				w.scale(ctx, "next", 0)
				w.delete(ctx, successor, client.GracePeriodSeconds(1))
				w.awaitNothingLeft(ctx)
			},
			Entry("that of its own node", nodes[0], nodes[0]),
			Entry("that of another node", nodes[0], nodes[1]),
		)

		It("#162: the reconciler frees the addresses of a Pending pod, and the next pod of the StatefulSet gets both", func(ctx context.Context) {
			reported.expectHappyEnd(ctx)
		})
	})

	Context("in mode Warn", func() {
		BeforeAll(func(ctx context.Context) { installGuard(ctx, configv1alpha1.ReleaseModeWarn) })

		It("#162: the reconciler is let through, which is counted and told, and the guard gives neither pod's addresses to a third", func(ctx context.Context) {
			before := readLedger(ctx, Default)
			w := newWorld(ctx, Default, replicas, replicas)
			addresses := w.firstPending(ctx)
			Expect(w.reconcile(ctx)).To(Succeed())
			Expect(w.entries(ctx, w)).To(BeEmpty())
			now := readLedger(ctx, Default)
			Expect(now.since(before, unsafeReleases, "warned", "ippools", string(v1alpha1.ReasonPodInUse))).To(BeEquivalentTo(2), "%v", now)
			Expect(now.since(before, unsafeReleases, "refused")).To(BeZero(), "%v", now)
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(w.eventsOf(ctx, g, refused)).To(ContainElement(And(HavePrefix("web-0: "), ContainSubstring("Allowed, because the mode is Warn"))))
			}).Should(Succeed())
			w.awaitShared(ctx, addresses)
			w.scale(ctx, web, 0)
			w.awaitNothingLeft(ctx)
		})
	})

	Context("in mode Deny", func() {
		BeforeAll(func(ctx context.Context) {
			if theCluster.Manager() == nil { // somebody has asked for these specs only
				installGuard(ctx, configv1alpha1.ReleaseModeDeny)
				return
			}
			reconfigure(ctx, "mode: "+string(configv1alpha1.ReleaseModeWarn), "mode: "+string(configv1alpha1.ReleaseModeDeny))
		})

		It("#162: the reconciler is refused the addresses of pods that are Pending, that run, that are being deleted and that were just replaced", func(ctx context.Context) {
			w := newWorld(ctx, Default, replicas, replicas)
			w.firstPending(ctx)
			before := w.entries(ctx, w)
			Expect(w.reconcile(ctx)).To(MatchError(And(ContainSubstring(refused), ContainSubstring(w.namespace+"/web-0"), ContainSubstring("is not being deleted"))))
			Expect(w.entries(ctx, w)).To(Equal(before))
			w.awaitServed(ctx, web)

			w.patchSet(ctx, web, `{"spec":{"template":{"metadata":{"annotations":{"`+api.AddDelayAnnotation+`":"4s"}}}}}`)
			pods := w.podsOf(ctx, w, web)
			w.delete(ctx, pods["web-2"], client.GracePeriodSeconds(0))
			Expect(w.reconcile(ctx)).To(Succeed(), "it leaves pods alone that show their addresses, whether or not they are being deleted")
			w.awaitGone(ctx, pods["web-2"])
			w.awaitPending(ctx, "web-2")
			before = w.entries(ctx, w)
			Expect(w.reconcile(ctx)).To(MatchError(And(ContainSubstring(refused), ContainSubstring(w.namespace+"/web-2"))))
			Expect(w.entries(ctx, w)).To(Equal(before))
			w.scale(ctx, web, 0)
			w.awaitNothingLeft(ctx)
			w.expectNoDuplicate(ctx)
		})

		Context("all at once, a StatefulSet", func() {
			var before ledger
			BeforeAll(func(ctx context.Context) {
				before = readLedger(ctx, Default)
				schedule = startSchedule(ctx)
				begin(ctx, matrix)
			})

			for _, row := range matrix {
				It(row.name+": gets every address again, and no address is used twice", func(ctx context.Context) { row.expectHappyEnd(ctx) })
			}

			It("all of these: CNI DEL was let through, and what was refused was in use", func(ctx context.Context) {
				now := readLedger(ctx, Default)
				Expect(now.since(before, unsafeReleases, "allowed", "ippools", string(v1alpha1.ReasonCNIDelete))).To(BeNumerically(">", 0), "%v", now)
				Expect(now.since(before, unsafeReleases, "refused", "ippools", string(v1alpha1.ReasonPodInUse))).To(BeNumerically(">", 0), "%v", now)
				Expect(now.since(before, unsafeReleases, "warned")).To(BeZero(), "%v", now)
				Expect(now.since(before, unclassified)).To(BeZero(), "%v", now)
				GinkgoWriter.Printf("what the guard counted: %v\n", now)
			})
		})

		It("pods that were deleted while the control loops and the manager were away leave nothing, and their addresses serve others", func(ctx context.Context) {
			w := newWorld(ctx, Default, replicas)
			mend := w.leave(ctx, append(loops.all(), theCluster.Manager())...)
			mend(ctx)
			loops.start(ctx)
			Expect(theCluster.StartManager(ctx)).To(Succeed())
			w.create(ctx, w.newSet("next", parallel, replicas))
			w.awaitServed(ctx, "next")
			w.scale(ctx, "next", 0)
			w.awaitNothingLeft(ctx)
			w.expectNoDuplicate(ctx)
		})

		It("a pod whose address went on to another one while the manager was away is let go", func(ctx context.Context) {
			w := newWorld(ctx, Default, 1)
			w.create(ctx, w.newSet(web, parallel, 1, api.AddDelayAnnotation, addDelay))
			first := w.awaitServed(ctx, web)["web-0"]
			Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(w.records(ctx, g)).To(HaveKey(string(first.UID))) }).Should(Succeed())
			Expect(theCluster.Manager().Kill()).To(Succeed())
			w.scale(ctx, web, 0)
			w.create(ctx, w.newSet("next", parallel, 1))
			w.awaitServed(ctx, "next")
			Expect(theCluster.StartManager(ctx)).To(Succeed())
			w.awaitGone(ctx, first)
			w.awaitServed(ctx, "next")
			w.scale(ctx, "next", 0)
			w.awaitNothingLeft(ctx)
			w.expectNoDuplicate(ctx)
		})

		It("a control loop that lags behind is refused the address of a pod of another node", func(ctx context.Context) {
			before := readLedger(ctx, Default)
			w, successor, address := heard(ctx, loops, nodes[0], nodes[1], func(g Gomega, ctx context.Context, _ *world) {
				g.Expect(readLedger(ctx, g).since(before, unsafeReleases, "refused", "ippools", string(v1alpha1.ReasonKubeletNotFinished))).To(BeNumerically(">", 0))
			})
			Expect(w.held(ctx, w, "web-0")).To(Equal([]string{address}))
			w.create(ctx, w.newSet("next", parallel, 1))
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(w.events(ctx, g)).To(ContainElement(HaveField("Event", api.EventAddFailed)))
			}).Should(Succeed())
			Expect(w.users(ctx, w, address)).To(Equal([]string{"web-0"}))
			w.scale(ctx, web, 0)
			w.delete(ctx, successor, client.GracePeriodSeconds(1))
			w.awaitServed(ctx, "next")
			w.scale(ctx, "next", 0)
			w.awaitNothingLeft(ctx)
			w.expectNoDuplicate(ctx)
		})

		// What the guard cannot tell from CNI DEL: the control loop has its token, and the pod is being deleted.
		It("a control loop that lags behind is let through on its own node, and both pods come to their end", func(ctx context.Context) {
			w, successor, address := heard(ctx, loops, nodes[0], nodes[0], func(g Gomega, ctx context.Context, w *world) {
				g.Expect(w.entries(ctx, g)).To(BeEmpty())
			})
			w.create(ctx, w.newSet("next", parallel, 1))
			next := w.awaitServed(ctx, "next")["next-0"]
			Expect(w.users(ctx, w, address)).To(Equal([]string{"web-0", "next-0"}))
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(w.records(ctx, g)).To(And(HaveLen(2), HaveKey(string(successor.UID)), HaveKey(string(next.UID))))
			}).Should(Succeed())
			w.scale(ctx, web, 0)
			w.delete(ctx, successor, client.GracePeriodSeconds(1))
			w.awaitGone(ctx, successor)
			Expect(w.held(ctx, w, "next-0")).To(Equal([]string{address}), "it is the other pod's")
			w.scale(ctx, "next", 0)
			w.awaitNothingLeft(ctx)
		})

		It("a release that died under its tombstone is finished, whoever comes in between", func(ctx context.Context) {
			tellOfTombstones(ctx, loops)
		})

		// Before v0.9.4 the reconciler is a part of the control loop. Here the images' tag says that it is not, and the administrator's word counts more.
		It("a reconciler that shares the token of CNI DEL is refused the address of a Pending pod where the configuration says so", func(ctx context.Context) {
			const section, shares = "unsafeReleases:\n", "unsafeReleases:\n  reconcilerInDaemonSet: true\n"
			reconfigure(ctx, section, shares)
			w := newWorld(ctx, Default, replicas, replicas)
			w.firstPending(ctx)
			var pod corev1.Pod
			Expect(admin.Get(ctx, w.key("web-0"), &pod)).To(Succeed())
			shared, err := token.ForPod(ctx, theCluster.Config(), daemonSetPod(ctx, pod.Spec.NodeName))
			Expect(err).NotTo(HaveOccurred())
			before := w.entries(ctx, w)
			Expect(w.reconcileAs(ctx, shared)).To(MatchError(And(ContainSubstring(refused), ContainSubstring("the IPAM's reconciler shares these pods"))))
			Expect(w.entries(ctx, w)).To(Equal(before))
			w.awaitServed(ctx, web)
			w.scale(ctx, web, 0)
			w.awaitNothingLeft(ctx)
			w.expectNoDuplicate(ctx)
			w.expectNoRefusedDEL(ctx)
			reconfigure(ctx, shares, section)
		})

		It("an API server that goes away while pods end costs no address, whatever watches and DELs have missed", func(ctx context.Context) {
			w := newWorld(ctx, Default, replicas)
			set := w.newSet(web, parallel, replicas)
			// kube-scheduler ends itself where it missed that a pod was replaced on another node.
			set.Spec.Template.Spec.NodeName = nodes[0]
			w.create(ctx, set)
			pods := w.awaitServed(ctx, web)
			w.scale(ctx, web, 2)
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(w.podsOf(ctx, g, web)).To(ContainElement(HaveField("DeletionTimestamp", Not(BeNil()))))
			}).Should(Succeed())
			Expect(theCluster.ControlPlane().StopAPIServer()).To(Succeed())
			Expect(theCluster.Manager().Kill()).To(Succeed()) // or it ends itself, once it cannot renew its lease
			Expect(theCluster.ControlPlane().StartAPIServer(ctx)).To(Succeed())
			Expect(theCluster.StartManager(ctx)).To(Succeed())
			w.scale(ctx, web, replicas)
			after := w.awaitServed(ctx, web)
			Expect(after["web-4"].UID).NotTo(Equal(pods["web-4"].UID))
			w.scale(ctx, web, 0)
			w.awaitNothingLeft(ctx)
			w.expectNoDuplicate(ctx)
		})
	})
})

// awaitShared waits until the second pod of the StatefulSet has these addresses too, while the first one uses them.
func (w *world) awaitShared(ctx context.Context, addresses []string) {
	w.Eventually(ctx, func(g Gomega, ctx context.Context) {
		for _, ip := range addresses {
			g.Expect(w.users(ctx, g, ip)).To(Equal([]string{"web-0", "web-1"}), ip)
		}
		for name, pod := range w.podsOf(ctx, g, web) {
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning), name)
		}
	}).Should(Succeed())
	w.Expect(slices.Collect(maps.Keys(w.entries(ctx, w)))).To(ContainElements(addresses))
}
