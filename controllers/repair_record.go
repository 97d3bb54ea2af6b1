// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
)

// recordRepair writes a line into the records that the finding is about: that of the pod, or those that have the address in the
// pool. A pod without a record holds nothing that one could be about.
func (a *auditor) recordRepair(ctx context.Context, f ipamaudit.Finding, o outcome) error {
	names := []string{string(f.UID)}
	if f.UID == "" {
		names = nil
		records, err := a.cachedRecords(ctx, indexRecordAddress, addressKey(a.backend.Name(), f.Pool, f.IP.String()))
		if err != nil {
			return fmt.Errorf("looking for the records of %s in pool %s: %w", f.IP, f.Pool, err)
		}
		for i := range records {
			names = append(names, records[i].Name)
		}
	}
	address := ""
	if f.IP.IsValid() {
		address = f.IP.String()
	}
	line := v1alpha1.Repair{Time: metav1.NewTime(a.clock.Now()), Kind: string(f.Kind), Address: address, Result: o.result,
		Message: shortened(f.Message() + " " + o.message)}
	for _, name := range names {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return a.addRepair(ctx, name, line) })
		if err != nil {
			return fmt.Errorf("telling of a repair in record %s: %w", name, err)
		}
	}
	return nil
}

// addRepair adds a line to one record.
func (a *auditor) addRepair(ctx context.Context, name string, line v1alpha1.Repair) error {
	var record v1alpha1.IPAllocation
	if err := a.live.Get(ctx, types.NamespacedName{Name: name}, &record); err != nil {
		return client.IgnoreNotFound(err)
	}
	if last := lastRepair(&record, line); last != nil && last.Result == line.Result && last.Message == line.Message {
		return nil // an earlier process said it
	}
	before := record.DeepCopy()
	record.Status.Repairs = append(record.Status.Repairs, line)
	if more := len(record.Status.Repairs) - v1alpha1.MaxRepairs; more > 0 {
		record.Status.Repairs = record.Status.Repairs[more:]
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(a.client.Status().Patch(ctx, &record, patch, client.FieldOwner(finalizer.FieldManager)))
}

// lastRepair is the newest line about the same contradiction.
func lastRepair(record *v1alpha1.IPAllocation, line v1alpha1.Repair) *v1alpha1.Repair {
	for i := len(record.Status.Repairs) - 1; i >= 0; i-- {
		if last := &record.Status.Repairs[i]; last.Kind == line.Kind && last.Address == line.Address {
			return last
		}
	}
	return nil
}
