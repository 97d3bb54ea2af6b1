// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// tombstone is a release whose manager died before its last write.
type tombstone struct {
	*world
	// reserved: it died before it had deleted the reservation.
	reserved bool
	// haunted: whereabouts' reconciler runs before the manager is back.
	haunted bool
	pod     *corev1.Pod
	address string
}

// tellOfTombstones tells of four releases, whose manager dies at once.
func tellOfTombstones(ctx context.Context, loops controlLoops) {
	GinkgoHelper()
	var all []*tombstone
	var ends []func(context.Context)
	for _, reserved := range []bool{true, false} {
		for _, haunted := range []bool{true, false} {
			t := &tombstone{world: newWorld(ctx, Default, 1), reserved: reserved, haunted: haunted}
			ends = append(ends, t.prepare(ctx)...)
			all = append(all, t)
		}
	}
	for _, t := range all {
		t.awaitMarked(ctx)
	}
	Expect(theCluster.Manager().Kill()).To(Succeed())
	for _, end := range ends {
		end(ctx)
	}
	for _, t := range all {
		t.succeed(ctx)
	}
	loops.restart(ctx) // and all that they have heard of
	Expect(theCluster.StartManager(ctx)).To(Succeed())
	for _, t := range all {
		By(fmt.Sprintf("namespace %s, with the reservation: %t, after a run of the reconciler: %t", t.namespace, t.reserved, t.haunted))
		successor := t.awaitServed(ctx, web)["web-0"]
		Expect(successor.UID).NotTo(Equal(t.pod.UID))
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(t.records(ctx, g)).To(And(HaveLen(1), HaveKey(string(successor.UID))))
			var now corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(successor), &now)).To(Succeed())
			g.Expect(now.Finalizers).To(ContainElement(v1alpha1.Finalizer), "the late stamp")
		}).Should(Succeed())
		Expect(t.held(ctx, t, "web-0")).To(Equal([]string{t.address}))
		Expect(t.reservations(ctx, t)).To(Equal(map[string]string{t.address: t.namespace + "/web-0"}), "it is the successor's")
		t.scale(ctx, web, 0)
	}
	for _, t := range all {
		t.awaitNothingLeft(ctx)
		t.expectNoDuplicate(ctx)
	}
}

// prepare deletes a pod whose DEL is lost, and keeps the manager from writing all of the release.
func (t *tombstone) prepare(ctx context.Context) (ends []func(context.Context)) {
	t.create(ctx, t.newSet(web, parallel, 1))
	t.pod = t.awaitServed(ctx, web)["web-0"]
	t.address = t.held(ctx, t, "web-0")[0]
	next := t.loses()
	if t.reserved {
		next = fmt.Sprintf(`request.resource.resource == "overlappingrangeipreservations" && request.name == %q`, t.address)
	}
	ends = append(ends, refuse(ctx, t, plugin, t.loses()), refuse(ctx, t, manager, next))
	t.delete(ctx, t.pod)
	return ends
}

func (t *tombstone) awaitMarked(ctx context.Context) {
	t.Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(t.entries(ctx, g)).To(HaveKeyWithValue(t.address, HaveField("PodRef", v1alpha1.TombstonePrefix+"/"+string(t.pod.UID))))
		if t.reserved {
			g.Expect(t.reservations(ctx, g)).To(HaveKey(t.address))
		} else {
			g.Expect(t.reservations(ctx, g)).To(BeEmpty())
		}
	}).Should(Succeed())
}

// succeed takes our finalizer off, as impatient people do while nobody answers, so that the next pod of the name starts;
// and lets the reconciler run where that is wanted.
func (t *tombstone) succeed(ctx context.Context) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, t.pod.UID, v1alpha1.Finalizer)
	t.Expect(admin.Patch(ctx, t.pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))).To(Succeed())
	t.awaitGone(ctx, t.pod)
	t.Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(t.events(ctx, g)).To(ContainElement(HaveField("Event", "add-failed")), "the tombstone is nobody's to inherit")
	}).Should(Succeed())
	if !t.haunted {
		return
	}
	t.Expect(t.reconcile(ctx)).To(Succeed(), "nobody is there to refuse it")
	t.awaitServed(ctx, web)
}
