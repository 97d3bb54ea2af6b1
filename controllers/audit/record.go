// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
)

// maxUnreported bounds the lines that wait: some MiB, and a thousand repairs while no record could be written.
const maxUnreported = 1000

// unreported is a line about a repair that not every record which it is about has yet.
type unreported struct {
	finding ipamaudit.Finding
	line    v1alpha1.Repair
	// records are those that do not have it yet; they are looked for once, and known from then on.
	records []string
	known   bool
}

// unreportedLines are in the order in which they have to be written.
type unreportedLines []unreported

// add puts a line last. If there are too many, the oldest is dropped, as in a record.
func (l *unreportedLines) add(u unreported) {
	*l = append(*l, u)
	if more := len(*l) - maxUnreported; more > 0 {
		*l = slices.Delete(*l, 0, more)
	}
}

// lineOf is the line about what became of a finding.
func (a *auditor) lineOf(f ipamaudit.Finding, o outcome) v1alpha1.Repair {
	line := v1alpha1.Repair{Time: metav1.NewTime(a.clock.Now()), Kind: string(f.Kind), Result: o.result, Message: eventlimit.Note(f.Message() + " " + o.message)}
	if f.IP.IsValid() {
		line.Address = f.IP.String()
	}
	return line
}

// writeUnreported writes lines into the records that their findings are about: that of the pod, or those that have the address in the
// pool. A pod without a record holds nothing that one could be about. What could not be written stays for the next audit; a record
// that lacks a line gets no later one first.
func (a *auditor) writeUnreported(ctx context.Context) error {
	var failures []error
	behind := sets.New[string]()
	left := make(unreportedLines, 0, len(a.unreported))
	for _, u := range a.unreported {
		failures = append(failures, a.writeLine(ctx, &u, behind))
		if !u.known || len(u.records) > 0 {
			left = append(left, u)
		}
	}
	a.unreported = left
	return errors.Join(failures...)
}

// writeLine writes one line, and leaves in it the records that do not have it. Those that are behind are not tried.
func (a *auditor) writeLine(ctx context.Context, u *unreported, behind sets.Set[string]) error {
	if err := a.findRecords(ctx, u); err != nil {
		return err
	}
	var failures []error
	u.records = slices.DeleteFunc(u.records, func(name string) bool {
		if behind.Has(name) {
			return false
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return a.addRepair(ctx, name, u.line) })
		if err != nil {
			behind.Insert(name)
			failures = append(failures, fmt.Errorf("telling of a repair in record %s: %w", name, err))
		}
		return err == nil
	})
	return errors.Join(failures...)
}

// findRecords finds the records that a line is about.
func (a *auditor) findRecords(ctx context.Context, u *unreported) error {
	f := &u.finding
	switch {
	case u.known:
		return nil
	case f.UID != "":
		u.records, u.known = []string{string(f.UID)}, true
		return nil
	}
	records, err := index.Records(ctx, a.client, index.RecordAddress, index.AddressKey(a.backend.Name(), f.Pool, f.IP.String()))
	if err != nil {
		return fmt.Errorf("looking for the records of %s in pool %s: %w", f.IP, f.Pool, err)
	}
	for i := range records {
		u.records = append(u.records, records[i].Name)
	}
	u.known = true
	return nil
}

// addRepair adds a line to one record.
func (a *auditor) addRepair(ctx context.Context, name string, line v1alpha1.Repair) error {
	var record v1alpha1.IPAllocation
	if err := a.live.Get(ctx, types.NamespacedName{Name: name}, &record); err != nil {
		return client.IgnoreNotFound(err)
	}
	if last := lastRepair(&record, line); last != nil && last.Result == line.Result && last.Message == line.Message {
		return nil // an earlier process wrote it
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
