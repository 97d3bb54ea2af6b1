// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastWrites are the newest entries of managedFields, all of one second. The API server dates an entry anew with each write that adds or
// changes a field, and not with one that only removes some.
func lastWrites(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var last []metav1.ManagedFieldsEntry
	for i := range fields {
		switch entry := &fields[i]; {
		case entry.Time == nil || (len(last) > 0 && entry.Time.Before(last[0].Time)):
		case len(last) > 0 && entry.Time.Equal(last[0].Time):
			last = append(last, *entry)
		default:
			last = []metav1.ManagedFieldsEntry{*entry}
		}
	}
	return last
}

// has reports whether the entry of one write is among others, as far as entries distinguish writes.
func has(entries []metav1.ManagedFieldsEntry, write *metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == write.Manager && e.Operation == write.Operation && e.Subresource == write.Subresource && e.Time.Equal(write.Time)
	})
}

// maxLastWrites bounds what a pod costs in the cache: a client can date as many entries as it likes.
const maxLastWrites = 4

// withLastWrites adds to the kept entries the newest of all, without their fields: RemovedBy compares them.
func withLastWrites(kept, all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	newest := lastWrites(all)
	for _, last := range newest[:min(len(newest), maxLastWrites)] {
		if !has(kept, &last) {
			last.FieldsV1 = nil
			kept = append(kept, last)
		}
	}
	return kept
}

// RemovedBy is the field manager of the write between two versions of a pod that follow each other in a watch; empty where it left no trace.
func RemovedBy(before, now *corev1.Pod) string {
	earlier := lastWrites(before.ManagedFields)
	for _, last := range lastWrites(now.ManagedFields) {
		older := len(earlier) > 0 && last.Time.Before(earlier[0].Time) // the last writer of before lost its entry
		if !older && !has(earlier, &last) {
			return last.Manager
		}
	}
	return ""
}
