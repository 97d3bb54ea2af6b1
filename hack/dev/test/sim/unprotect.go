// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// checkUnprotect judges the removal of the finalizer from a pod. By a manager: no sandbox of the pod may be starting, or have an entry that the next
// pod with the name inherits. Any other client has to state in the same write what happens to the addresses. The world is locked.
func (w *World) checkUnprotect(c apiserver.Change) {
	before, after := unstructured.Unstructured{Object: c.Old}, unstructured.Unstructured{Object: c.New}
	if c.New == nil && before.GetLabels()[guardLabel] == "" {
		w.excused[before.GetUID()] = "it was created while no replica answered, and vanished before a pool showed it" // docs/limits.md
	}
	if !slices.Contains(before.GetFinalizers(), guardFinalizer) || slices.Contains(after.GetFinalizers(), guardFinalizer) {
		return
	}
	switch {
	case strings.HasPrefix(c.Client, "manager"):
		w.checkUnprotectByManager(c, &before)
	case c.Client != glassBreaker:
		w.violateLocked("admission", "%s took the finalizer off %s (%s), and nothing refused it", c.Client, before.GetName(), before.GetUID())
	}
}

func (w *World) checkUnprotectByManager(c apiserver.Change, before *unstructured.Unstructured) {
	name := before.GetNamespace() + "/" + before.GetName()
	w.noteLocked("%s lets %s (%s) go", c.Client, name, before.GetUID())
	for _, b := range w.boxesOfLocked(before.GetUID()) {
		inherits := slices.ContainsFunc(w.usage.stands, func(e entry) bool { return e.sandbox == b.id && e.podRef == name })
		if !b.making && !inherits {
			continue
		}
		if excuse := firstOf(b.excuse, w.excused[b.uid], b.machine.dead); excuse != "" {
			w.noteLocked("excused end of the protection of %s: %s", b, excuse)
			continue
		}
		w.violateLocked("protection", "%s let the pod of %s go, which is starting or has an entry", c.Client, b)
	}
}

// boxesOfLocked are the sandboxes of a pod on a machine, and those that were the last users of their addresses.
func (w *World) boxesOfLocked(uid types.UID) []*box {
	var all []*box
	add := func(b *box) {
		if b.uid == uid && !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	for _, m := range w.machines {
		for _, id := range slices.Sorted(maps.Keys(m.boxes)) {
			add(m.boxes[id])
		}
	}
	for _, address := range slices.Sorted(maps.Keys(w.usage.users)) {
		for _, b := range w.usage.users[address] {
			add(b)
		}
	}
	return all
}
