// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	recordsPolicy = "holdfast-records"
	breakGlass    = "holdfast.dev/break-glass"

	noCreation    = "manager alone makes IPAllocations"
	noRecordSpec  = "manager alone writes the spec"
	noRecordState = "manager alone writes the status"
	noForgetting  = "still holds addresses"
)

// The last of all, because the other specs need the definition.
var _ = suite.Add(func() {
	AfterAll(func(ctx context.Context) {
		By("deleting the definition, which deletes records that no client may delete")
		held := newRecord(ctx, nodeA)
		Expect(user.Delete(ctx, held.DeepCopy())).To(outcome(recordsPolicy, noForgetting))
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "ipallocations.holdfast.dev"}}
		Expect(user.Delete(ctx, definition)).To(Succeed())
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(definition), definition) }).Should(Satisfy(apierrors.IsNotFound))
	}, NodeTimeout(soon))
})

var _ = suite.Describe("What other clients write to a record, agents too,", func() {
	annotations := func(reason string) any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{breakGlass: reason}}}
	}
	writes := map[string]struct {
		write   func(context.Context, client.Client, *v1alpha1.IPAllocation) error
		refusal string
	}{
		"the kubelet's report": {func(ctx context.Context, c client.Client, r *v1alpha1.IPAllocation) error {
			return patchRecord(ctx, c, r, itself, map[string]any{"spec": map[string]any{"kubelet": map[string]any{"ending": "Finished", "observedTime": metav1.Now()}}})
		}, noRecordSpec},
		"its state": {func(ctx context.Context, c client.Client, r *v1alpha1.IPAllocation) error {
			return patchRecord(ctx, c, r, inStatus, status("state", "Releasing"))
		}, noRecordState},
		"its deletion": {func(ctx context.Context, c client.Client, r *v1alpha1.IPAllocation) error {
			return c.Delete(ctx, r.DeepCopy())
		}, noForgetting},
	}
	for what, tc := range writes {
		It("needs a reason: "+what, func(ctx context.Context) {
			record := newRecord(ctx, nodeA)
			for _, who := range []client.Client{user, admin, agentA} {
				Expect(tc.write(ctx, who, record)).To(outcome(recordsPolicy, tc.refusal))
			}
			Expect(patchRecord(ctx, user, record, itself, annotations(""))).To(Succeed())
			Expect(tc.write(ctx, user, record)).To(outcome(recordsPolicy, tc.refusal))
			Expect(patchRecord(ctx, user, record, itself, annotations("the machine was scrapped"))).To(Succeed())
			Expect(tc.write(ctx, user, record)).To(Succeed())
		}, SpecTimeout(soon))
	}

	It("needs a reason: its creation", func(ctx context.Context) {
		record := newRecord(ctx, nodeA)
		record.ObjectMeta = metav1.ObjectMeta{Name: "restored"}
		for _, who := range []client.Client{user, agentA} {
			Expect(who.Create(ctx, record.DeepCopy())).To(outcome(recordsPolicy, noCreation))
		}
		record.Annotations = map[string]string{breakGlass: "restored from a backup"}
		Expect(user.Create(ctx, record)).To(Succeed())
		Expect(user.Delete(ctx, record)).To(Succeed())
	}, SpecTimeout(soon))

	It("may be metadata, nothing new, and the end of a record that holds no address", func(ctx context.Context) {
		record := newRecord(ctx, nodeA, func(r *v1alpha1.IPAllocation) { r.Spec.Addresses = []v1alpha1.AddressRecord{} })
		Expect(patchRecord(ctx, user, record, itself, map[string]any{"metadata": map[string]any{"labels": map[string]string{"a": "b"}}})).To(Succeed())
		Expect(user.Update(ctx, stored(ctx, record))).To(Succeed())
		Expect(user.Status().Update(ctx, stored(ctx, record))).To(Succeed())
		Expect(user.Delete(ctx, record)).To(Succeed())
	}, SpecTimeout(soon))

	It("needs a reason: the end of a deletion that began while it held no address", func(ctx context.Context) {
		var addresses []v1alpha1.AddressRecord
		record := newRecord(ctx, nodeA, func(r *v1alpha1.IPAllocation) {
			addresses, r.Spec.Addresses, r.Finalizers = r.Spec.Addresses, []v1alpha1.AddressRecord{}, []string{"example.com/hold"}
		})
		Expect(user.Delete(ctx, record)).To(Succeed())
		held := stored(ctx, record)
		held.Spec.Addresses = addresses
		Expect(theManager.Update(ctx, held)).To(Succeed())
		noFinalizer := map[string]any{"metadata": map[string]any{"finalizers": nil}}
		Expect(patchRecord(ctx, user, record, itself, noFinalizer)).To(outcome(recordsPolicy, noForgetting))
		Expect(patchRecord(ctx, theManager, record, itself, noFinalizer)).To(Succeed())
	}, SpecTimeout(soon))

	It("is stopped record by record where all are deleted at once", func(ctx context.Context) {
		held := newRecord(ctx, nodeA)
		Expect(user.DeleteAllOf(ctx, &v1alpha1.IPAllocation{})).To(outcome(recordsPolicy, noForgetting))
		Expect(stored(ctx, held).DeletionTimestamp).To(BeNil())
	}, SpecTimeout(soon))

	It("is nothing for a kubelet", func(ctx context.Context) {
		err := patchRecord(ctx, kubelet, newRecord(ctx, nodeA), inStatus, status("state", "Releasing"))
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("cannot patch resource"))))
	}, SpecTimeout(soon))
})

// status is a merge patch of one field of the status.
func status(field string, value any) any {
	return map[string]any{"status": map[string]any{field: value}}
}
