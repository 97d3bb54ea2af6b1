// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("IPAM data that cannot be read", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("is reported, is never written, and holds nobody", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		ref := pod.Namespace + "/" + pod.Name
		bad := map[string]wbv1alpha1.IPAllocation{
			"9223372036854775808": {ContainerID: "too-large", PodRef: ref},
			"300":                 {ContainerID: "outside", PodRef: ref},
			"-1":                  {ContainerID: "negative", PodRef: ref},
			"five":                {ContainerID: "word", PodRef: ref},
			"7":                   {ContainerID: "nobody", PodRef: ""},
			"8":                   {ContainerID: "nameless", PodRef: "no-slash"},
		}
		allocations := map[string]any{}
		for offset, entry := range bad {
			allocations[offset] = entry
		}
		w.patchPool(ctx, allocations)
		Eventually(eventsAbout(ctx, w.pool)).Should(BeNumerically(">=", 1))
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(Equal(bad))
	})

	It("I5: is unknown, not gone, where a whole pool became unreadable; and what it held is released once it can be read", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		good := w.rangeText(ctx)
		w.setRange(ctx, "10.broken")
		Eventually(eventsAbout(ctx, w.pool)).Should(BeNumerically(">=", 1))
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonObservationFailed)))
		Consistently(exists(ctx, pod)).Should(BeTrue())
		w.setRange(ctx, good)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})
})

func (w *world) rangeText(ctx context.Context) string {
	GinkgoHelper()
	var pool wbv1alpha1.IPPool
	Expect(admin.Get(ctx, key(poolNamespace, w.pool), &pool)).To(Succeed())
	return pool.Spec.Range
}

func (w *world) setRange(ctx context.Context, text string) {
	GinkgoHelper()
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool}}
	Expect(admin.Patch(ctx, pool, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"range":"`+text+`"}}`)))).To(Succeed())
}

// eventsAbout counts the events on an IPPool that say that it is malformed.
func eventsAbout(ctx context.Context, pool string) func() (int, error) {
	return func() (int, error) {
		var events eventsv1.EventList
		err := admin.List(ctx, &events, client.InNamespace(poolNamespace))
		count := 0
		for i := range events.Items {
			if events.Items[i].Reason == string(v1alpha1.ReasonMalformedPool) && events.Items[i].Regarding.Name == pool {
				count++
			}
		}
		return count, err
	}
}
