// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The pods of all shapes start, and end, side by side; a spec waits only for those of its own.
var _ = Describe("A pod with", Ordered, ContinueOnFailure, func() {
	all := map[string]map[string]*placed{} // by shape and node
	var before ledger

	BeforeAll(func(ctx context.Context) {
		before = readLedger(ctx)
		for _, s := range shapes {
			s.define(ctx)
			all[s.id] = map[string]*placed{}
			for _, node := range s.nodes() {
				all[s.id][node] = s.place(ctx, node)
			}
		}
	})

	for _, s := range shapes {
		It(s.name+": is stamped, gets what it should, and each address is recorded", func(ctx context.Context) {
			for _, p := range all[s.id] {
				Expect(p.pod.Finalizers).To(ContainElement(v1alpha1.Finalizer), "the webhook stamps %s", p.podRef())
				Expect(p.pod.Labels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))
				p.awaitServed(ctx)
			}
			if s.orphanedNetworks {
				s.undefine(ctx)
			}
			for _, node := range s.passing() {
				all[s.id][node].delete(ctx)
			}
		})
	}

	It("all of these: none has an address of another one", func() {
		users := map[string]string{} // no two shapes have a pool in common
		for _, s := range shapes {
			for _, p := range all[s.id] {
				for _, a := range p.addresses {
					Expect(users).NotTo(HaveKey(a.Pool+" "+a.IP), "%s has it, too", p.podRef())
					users[a.Pool+" "+a.IP] = p.podRef()
				}
			}
		}
		for _, narrow := range all["narrow"] {
			for node, wide := range all["wide"] {
				if !slices.Contains(narrow.shape.passing(), node) { // those are gone, and their addresses may be other pods'
					Expect(narrow.addresses).NotTo(ContainElement(HaveField("IP", wide.addresses[0].IP)), "whereabouts keeps overlapping ranges apart")
				}
			}
		}
	})

	for _, s := range shapes {
		It(s.name+": gives everything back by CNI DEL in the ordinary case", func(ctx context.Context) {
			for _, node := range s.passing() {
				p := all[s.id][node]
				p.awaitNothingLeft(ctx)
				if s.quirky {
					continue
				}
				passed, failed := p.dels(ctx, Default)
				Expect(failed).To(BeZero(), node)
				Expect(passed).To(Equal(len(s.holds)), node)
			}
		})
	}

	It("all of these: the guard has released nothing", func(ctx context.Context) {
		now := readLedger(ctx)
		Expect(now.since(before, releases)).To(BeZero(), "%v", now)
		Expect(now.since(before, unsafeReleases, "allowed", "ippools", string(v1alpha1.ReasonCNIDelete))).To(BeNumerically(">", 0), "%v", now)
	})

	It("all of these: loses its DEL on one node, and its power on another", func(ctx context.Context) {
		for _, node := range []string{cutOff, oldCutOff, sliceless} {
			Expect(theCluster.StandIn().CutCNI(ctx, node)).To(Succeed())
		}
		Expect(theCluster.StandIn().PowerOff(ctx, dead)).To(Succeed())
		for _, s := range shapes {
			if s.sliced() {
				s.takeLeases(ctx, stuck)
			}
			for node, p := range all[s.id] {
				if !slices.Contains(s.passing(), node) {
					p.delete(ctx)
				}
			}
		}
		declareDead(ctx, dead) // last: it has others delete its pods, too
	})

	for _, s := range shapes {
		It(s.name+": leaks nothing when CNI DEL is lost", func(ctx context.Context) {
			for _, node := range s.losing() {
				p := all[s.id][node]
				p.awaitNothingLeft(ctx)
				passed, failed := p.dels(ctx, Default)
				Expect(passed).To(BeZero(), node)
				Expect(failed).To(Equal(len(s.holds)), node)
			}
		})
		It(s.name+": leaks nothing when its node dies and is declared out of service", func(ctx context.Context) {
			p := all[s.id][dead]
			p.awaitNothingLeft(ctx)
			passed, failed := p.dels(ctx, Default)
			Expect(passed + failed).To(BeZero())
		})
	}

	It("all of these: the guard has released each address once, by proof", func(ctx context.Context) {
		lost, died := 0, 0
		for _, s := range shapes {
			lost += len(s.holds) * len(s.losing())
			died += len(s.holds)
		}
		now := readLedger(ctx)
		Expect(now.since(before, releases, string(v1alpha1.ReasonKubeletFinished))).To(BeEquivalentTo(lost), "%v", now)
		Expect(now.since(before, releases, string(v1alpha1.ReasonNodeOutOfService))).To(BeEquivalentTo(died), "%v", now)
		Expect(now.since(before, releases)).To(BeEquivalentTo(lost+died), "%v", now)
	})

	// whereabouts' plugin dies where it cannot learn its slice, so the sandbox stays, and the kubelet asks again.
	It("node slices: is held while CNI DEL fails, and gives everything back once it passes", func(ctx context.Context) {
		var held []*placed
		for _, s := range shapes {
			if s.sliced() {
				held = append(held, all[s.id][sliceless])
			}
		}
		Expect(held).NotTo(BeEmpty())
		for _, p := range held {
			Expect(inPools(ctx, Default, p.podRef())).To(ConsistOf(p.addresses))
			var now corev1.Pod
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(p.pod), &now)).To(Succeed())
			Expect(now.Finalizers).To(ContainElement(v1alpha1.Finalizer))
		}
		Expect(theCluster.StandIn().MendCNI(ctx, sliceless)).To(Succeed())
		for _, p := range held {
			p.awaitNothingLeft(ctx)
			passed, failed := p.dels(ctx, Default)
			Expect(failed).To(BeZero())
			Expect(passed).To(Equal(len(p.shape.holds)))
		}
	})

	AfterAll(func(ctx context.Context) {
		for _, node := range []string{cutOff, oldCutOff, sliceless} {
			Expect(theCluster.StandIn().MendCNI(ctx, node)).To(Succeed())
		}
	})
})

// sliced says whether the shape has node slices.
func (s *shape) sliced() bool {
	for _, h := range s.holds {
		if h.sliced {
			return true
		}
	}
	return false
}

// nodes are those on which the shape has a pod. whereabouts v0.8.0 has no node slices.
func (s *shape) nodes() []string {
	if s.sliced() {
		return []string{ordinary, sliceless, stuck, dead}
	}
	return []string{ordinary, cutOff, dead, old, oldCutOff}
}

// passing are those of its nodes on which every DEL passes.
func (s *shape) passing() []string {
	if s.sliced() {
		return []string{ordinary}
	}
	return []string{ordinary, old}
}

// losing are those of its nodes on which DELs get lost.
func (s *shape) losing() []string {
	if s.sliced() {
		return []string{stuck}
	}
	return []string{cutOff, oldCutOff}
}

// takeLeases takes the Leases of a node's slices, for longer than any DEL waits.
func (s *shape) takeLeases(ctx context.Context, node string) {
	GinkgoHelper()
	for _, h := range s.holds {
		pool, _ := h.find(ctx, Default, node)
		_, name, _ := strings.Cut(pool, "/")
		patch := fmt.Appendf(nil, `{"spec":{"holderIdentity":"somebody/who-is-gone","leaseDurationSeconds":3600,"renewTime":%q}}`,
			metav1.NowMicro().UTC().Format("2006-01-02T15:04:05.000000Z"))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.inNamespace(), Name: name}}
		Expect(admin.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	}
}

// declareDead writes what kube-controller-manager writes about a node that is silent, and what an administrator writes
// about one that is off.
func declareDead(ctx context.Context, name string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	silent := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`,
		corev1.NodeReady, corev1.ConditionUnknown)
	Expect(admin.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, silent))).To(Succeed())
	off := fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"value":"nodeshutdown","effect":%q}]}}`, corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)
	Expect(admin.Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, off))).To(Succeed())
}
