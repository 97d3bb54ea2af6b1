// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Keep puts the tombstone of the pod's record on each entry that the record holds, as the manager does once a pod object is deleted: then no pod of
// the same name can come first. It returns those that it has put. It fails where an entry of the pod has no record, cannot be read, or was removed
// meanwhile: made again, it would stand for a record that may be deleted by then. Without a record, record is nil.
func Keep(ctx context.Context, backend Backend, pod PodRef, record *v1alpha1.IPAllocation) ([]Request, error) {
	var requests []Request
	var failures []error
	if record != nil {
		for i := range record.Spec.Addresses {
			key, err := KeyOf(&record.Spec.Addresses[i])
			if err != nil {
				return nil, fmt.Errorf("reading the addresses of its record: %w", err)
			}
			if stands := backend.Find(Query{SandboxIDs: []string{key.SandboxID}}).Entries; slices.ContainsFunc(stands, func(e Entry) bool { return e.Key == key }) {
				requests = append(requests, Request{Key: key, Record: record.Name, Standing: true})
			}
		}
	}
	found := backend.Find(Query{Pod: pod})
	for i := range found.Entries {
		if e := &found.Entries[i]; !slices.ContainsFunc(requests, func(r Request) bool { return r.Key == e.Key }) {
			failures = append(failures, fmt.Errorf("the pod's record does not have %s", e.Key))
		}
	}
	for _, p := range found.Problems {
		failures = append(failures, fmt.Errorf("offset %s of pool %s: %s", p.Offset, p.Pool, p.Message))
	}
	var kept []Request
	for _, result := range backend.Tombstone(ctx, requests) {
		if result.Err != nil {
			failures = append(failures, result.Err)
			continue
		}
		kept = append(kept, result.Request)
	}
	return kept, errors.Join(failures...)
}
