// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// validRecord is a record as the controller writes it.
func validRecord(name string) *v1alpha1.IPAllocation {
	return &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.IPAllocationSpec{
		PodNamespace: "records", PodName: name, NodeName: "node-of-" + name,
		Sandboxes: []v1alpha1.SandboxRecord{{ID: "sandbox", ObservedTime: metav1.Now(), Attribution: v1alpha1.AttributionNetworkStatus}},
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/pool", IP: "192.0.2.1", PodRef: "records/" + name,
			SandboxID: "sandbox", ObservedTime: metav1.Now(), PoolResourceVersion: "1"}},
	}}
}

var _ = suite.Describe("The IPAllocation API", func() {
	DescribeTable("refuses a record that contradicts itself",
		func(ctx context.Context, name string, spoil func(*v1alpha1.IPAllocation), says string) {
			record := validRecord(name)
			spoil(record)
			Expect(admin.Create(ctx, record)).To(MatchError(ContainSubstring(says)))
		},
		Entry("an address of a sandbox that is not listed", "no-sandbox", func(r *v1alpha1.IPAllocation) { r.Spec.Sandboxes = []v1alpha1.SandboxRecord{} },
			"every address names a sandbox"),
		Entry("an orphan without an address", v1alpha1.OrphanPrefix+"x", func(r *v1alpha1.IPAllocation) { r.Spec.Addresses = []v1alpha1.AddressRecord{} },
			"an orphan record names at least one address"),
		Entry("an unknown kind of evidence", "evidence", func(r *v1alpha1.IPAllocation) { r.Spec.Sandboxes[0].Attribution = "Guess" }, "Unsupported value"),
		Entry("an unknown ending", "ending", func(r *v1alpha1.IPAllocation) {
			r.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: "Maybe", ObservedTime: metav1.Now()}
		}, "Unsupported value"),
		Entry("one sandbox twice", "twice", func(r *v1alpha1.IPAllocation) { r.Spec.Sandboxes = append(r.Spec.Sandboxes, r.Spec.Sandboxes[0]) }, "Duplicate value"),
	)

	It("never changes its pod, and is found by pod and by node", func(ctx context.Context) {
		record := validRecord("selectable")
		Expect(admin.Create(ctx, record)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, record))).To(Succeed()) })
		for _, selector := range []client.MatchingFields{{"spec.nodeName": "node-of-selectable"}, {"spec.podNamespace": "records", "spec.podName": "selectable"}} {
			var found v1alpha1.IPAllocationList
			Expect(admin.List(ctx, &found, selector)).To(Succeed())
			Expect(found.Items).To(HaveLen(1), "by %v", selector)
		}
		changed := record.DeepCopy()
		changed.Spec.PodName = "another"
		Expect(admin.Update(ctx, changed)).To(MatchError(ContainSubstring("a record never changes its pod")))
	})
})
