// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// crashAfterWrite kills the manager after its Nth write or, half of the times, after a rare one: of a pool, or of the record of an orphan.
func (w *World) crashAfterWrite(f Fault) {
	c := &crash{after: f.N}
	switch f.N {
	case 4, 5:
		c.after, c.of = f.N-3, func(change apiserver.Change) bool { return change.Kind.Plural == "ippools" }
	case 6:
		c.after, c.of = 1, isOrphans
	}
	w.locked(func() { w.crash = c })
	w.after(f.For, func() {
		w.locked(func() {
			if w.crash == c {
				w.crash = nil
			}
		})
	})
}

// counts says whether the manager may be killed after a write.
func (c *crash) counts(change apiserver.Change) bool { return c.of == nil || c.of(change) }

func isOrphans(change apiserver.Change) bool {
	last := change.New
	if last == nil {
		last = change.Old
	}
	name, _, _ := unstructured.NestedString(last, "metadata", "name")
	return strings.HasPrefix(name, orphanPrefix)
}
