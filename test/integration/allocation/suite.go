// SPDX-License-Identifier: Apache-2.0

// Package allocation has whereabouts' own allocator and node-slice controller at work beside the manager, on a real control plane: what the
// repairs of reservations and the guard of node slices come to there. What is found and what is done about it is proven by unit tests.
package allocation

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

var (
	admin = fixture.Admin

	suite = fixture.NewSuite("allocation", fixture.PlaneOne, func(ctx context.Context) {
		story.Programs()
		fixture.CreateNamespace(ctx, story.ManagerNamespace)
		fixture.Apply(ctx, fixture.Folder("config/rbac").Objects())
	})
)

var _ = suite.Describe("Reservations that whereabouts' allocator made", func() {
	var w *story.World

	BeforeEach(func(ctx context.Context) { w = story.New(ctx) })

	define := func(ctx context.Context, name string, ipam story.Settings) {
		GinkgoHelper()
		story.Define(ctx, w.Name, name, story.Config(name, ipam))
	}
	// run makes a pod with an address of the allocator, which it shows.
	run := func(ctx context.Context, name, network string) (pod *corev1.Pod, address string) {
		GinkgoHelper()
		pod = w.Create(ctx, name, network)
		address = story.Allocate(ctx, w.Node.Name, w.Name, network, w.Name+"/"+name)
		w.Show(ctx, pod, network, address)
		return pod, address
	}

	It("are made again as they were when they were lost: of a network with a name, and of IPv6", func(ctx context.Context) {
		define(ctx, "four", story.Settings{"range": w.CIDR(24), "network_name": w.Name})
		define(ctx, "six", story.Settings{"range": "fd00::/64", "network_name": w.Name})
		var pods []*corev1.Pod
		for _, network := range []string{"four", "six"} {
			pod, address := run(ctx, "on-"+network, network)
			pods = append(pods, pod)
			Expect(story.Reservations(ctx)).To(HaveKeyWithValue(w.Name+"-"+strings.ReplaceAll(address, ":", "-"), w.Name+"/"+pod.Name))
		}
		made := story.Reservations(ctx)
		for name := range made {
			story.Unreserve(ctx, name)
		}
		story.Manager{}.Start(ctx)
		Eventually(ctx, story.Reservations).Should(Equal(made))
		for _, pod := range pods {
			Eventually(ctx, story.Notes).WithArguments("Pod", pod.Name, v1alpha1.ReasonReservationCreated).ShouldNot(BeEmpty())
			story.AwaitRecord(ctx, pod)
			story.End(ctx, pod)
		}
		Expect(story.Reservations(ctx)).To(BeEmpty())
		Expect(story.Entries(ctx)).To(BeEmpty())
	})

	It("for nothing would be taken over by the next pod of the name, and are not once they are marked", func(ctx context.Context) {
		define(ctx, "net", story.Settings{"range": w.CIDR(24)})
		before := story.Reserve(ctx, w.IP(1), w.Name+"/unmarked")
		Expect(story.Allocate(ctx, w.Node.Name, w.Name, "net", w.Name+"/unmarked")).To(Equal(w.IP(1)))
		after := before.DeepCopy()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(after), after)).To(Succeed())
		Expect(after.ResourceVersion).To(Equal(before.ResourceVersion), "a deletion that was decided before would pass")

		story.Reserve(ctx, w.IP(2), ipam.ReservationTombstone(w.Name+"/marked"))
		_, address := run(ctx, "marked", "net")
		Expect(address).To(Equal(w.IP(3)))
		story.Manager{}.Start(ctx)
		Eventually(ctx, story.Reservations).Should(Equal(map[string]string{w.IP(1): w.Name + "/unmarked", w.IP(3): w.Name + "/marked"}))
	})

	It("of one address in two pools are reported on both pods, nothing is freed, and the one that stays keeps or gets the reservation", func(ctx context.Context) {
		define(ctx, "wide", story.Settings{"range": w.CIDR(24), "network_name": w.Name})
		define(ctx, "narrow", story.Settings{"range": w.CIDR(25), "network_name": w.Name})
		first, address := run(ctx, "first", "wide")
		name := w.Name + "-" + address
		story.Unreserve(ctx, name)
		second, same := run(ctx, "second", "narrow")
		Expect(same).To(Equal(address))
		story.Manager{}.Start(ctx)
		for _, pod := range []*corev1.Pod{first, second} {
			Eventually(ctx, story.Notes).WithArguments("Pod", pod.Name, v1alpha1.ReasonAddressInTwoPools).Should(ContainElement(ContainSubstring(string(pod.UID))))
			story.AwaitRecord(ctx, pod)
		}
		Expect(story.Entries(ctx)).To(HaveLen(2))
		Expect(story.Reservations(ctx)).To(Equal(map[string]string{name: w.Name + "/second"}))
		story.End(ctx, second)
		Eventually(ctx, story.Reservations).Should(Equal(map[string]string{name: w.Name + "/first"}))
		Expect(story.Entries(ctx)).To(HaveLen(1))
		story.End(ctx, first)
		Eventually(ctx, story.Reservations).Should(BeEmpty())
	})
})
