// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// usage has which sandbox uses which address since when, by the machines and not by any object.
type usage struct {
	// users are the live sandboxes of each address.
	users map[string][]*box
	// stands are the entries of the pool.
	stands []entry
	// strays are the sandboxes whose owner cannot be known, and why.
	strays map[string]string
	// lostDELs is how many calls of CNI DEL on a machine are lost next.
	lostDELs map[string]int
	// webhookMissed is when a write last passed without a webhook.
	webhookMissed time.Duration
}

func newUsage() usage {
	return usage{users: map[string][]*box{}, strays: map[string]string{}, lostDELs: map[string]int{}, webhookMissed: -time.Hour}
}

// begin notes that ADD gave a sandbox its address: no live sandbox of another pod may have it.
func (l *usage) begin(w *World, b *box, address string) {
	recorded := w.hasEntry(b, address) // outside of the world's lock, which the server takes inside of its own
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.excuse = firstOf(b.excuse, w.excused[b.uid]); !recorded {
		b.excuse = "its ADD was never recorded"
	}
	b.addresses, b.live, b.making = append(b.addresses, address), true, false
	w.noteLocked("%s: ADD of %s", b.machine.name, b)
	l.strays[b.id] = firstOf(l.strays[b.id], w.whyStrayLocked(b))
	for _, other := range l.users[address] {
		if !other.live || other.uid == b.uid {
			continue
		}
		if excuse := firstOf(b.excuse, other.excuse, other.machine.dead, b.machine.dead, w.whyUnprotectedLocked(other.uid)); excuse != "" {
			w.noteLocked("excused duplicate of %s and %s: %s", b, other, excuse)
			b.excuse, other.excuse = firstOf(b.excuse, excuse), firstOf(other.excuse, excuse) // either may take the entry of both
			continue
		}
		w.violateLocked("safety", "%s and %s are alive at once", other, b)
	}
	l.users[address] = append(slices.DeleteFunc(l.users[address], func(o *box) bool { return !o.live }), b)
}

// whyStrayLocked says why the owner of a sandbox without a network-status may be unknown: an earlier pod with the name vanished, or no manager saw in
// which order the pod was bound and its ADD came.
func (w *World) whyStrayLocked(b *box) string {
	for uid, name := range w.vanished {
		if uid != b.uid && name == b.name {
			return "an earlier pod with the name vanished"
		}
	}
	if w.since() < max(w.lateUntil["ipallocations"], w.lateUntil["ippools"])+felt {
		return "a manager may see its ADD late, or that an earlier pod with the name is over"
	}
	blinding := append([]Kind{WatchDelayed, WatchMerged}, restarts...)
	isBlind := func(f Fault) bool {
		if f.Kind == WatchExpired { // its list follows after a pause
			return f.Who == "manager" && f.At-time.Second < w.since() && w.since() < f.At+10*time.Second
		}
		return slices.Contains(blinding, f.Kind) && f.At-felt < w.since() && w.since() < f.At+f.For+felt
	}
	if at := slices.IndexFunc(w.plan.Faults, isBlind); at >= 0 {
		return "no manager watched its ADD"
	}
	return ""
}

// whyUnprotectedLocked says why a pod that vanished was not protected: no replica of the webhook responded at its creation, and it is protected once a
// replica sees it in a pool (docs/limits.md).
func (w *World) whyUnprotectedLocked(uid types.UID) string {
	isDown := func(f Fault) bool {
		return slices.Contains(restarts, f.Kind) && f.At-felt < w.since() && w.since() < f.At+f.For+felt
	}
	if w.plan.Unowned || slices.ContainsFunc(w.plan.Faults, isDown) {
		return w.excused[uid]
	}
	return ""
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// end notes that a sandbox no longer uses its address.
func (l *usage) end(w *World, b *box) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.live = false
}

// takeLostDEL says whether this DEL is one that is lost. The world is locked.
func (l *usage) takeLostDEL(b *box) bool {
	if len(b.addresses) > 0 && b.forgotten {
		return true
	}
	if l.lostDELs[b.machine.name] == 0 || len(b.addresses) == 0 {
		return false
	}
	l.lostDELs[b.machine.name]--
	return true
}

// entry is an allocation in a pool.
type entry struct {
	address, offset, sandbox, podRef, device string
}

// entriesOf reads a pool as whereabouts writes it.
func entriesOf(pool map[string]any) []entry {
	spec, _ := pool["spec"].(map[string]any)
	allocations, _ := spec["allocations"].(map[string]any)
	prefix, err := netip.ParsePrefix(fmt.Sprint(spec["range"]))
	if err != nil {
		return nil
	}
	var all []entry
	for offset, value := range allocations {
		one, _ := value.(map[string]any)
		n, _ := strconv.Atoi(offset)
		at := prefix.Masked().Addr()
		for range n {
			at = at.Next()
		}
		id, _ := one["id"].(string)
		ref, _ := one["podref"].(string)
		device, _ := one["ifname"].(string)
		all = append(all, entry{at.String(), offset, id, ref, device})
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.address, b.address) })
	return all
}

// poolChanged judges what a write took from a pool. The world is locked.
func (l *usage) poolChanged(w *World, c apiserver.Change) {
	left := entriesOf(c.New)
	l.stands = left
	for _, old := range entriesOf(c.Old) {
		if slices.ContainsFunc(left, func(e entry) bool { return e.address == old.address }) {
			continue
		}
		w.noteLocked("%s takes %s of %s from the pool", c.Client, old.address, old.podRef)
		l.removed(w, c.Client, old)
	}
}

// removed judges one removed entry: no live sandbox may use its address.
func (l *usage) removed(w *World, by string, e entry) {
	for _, b := range l.users[e.address] {
		if !b.live || strings.HasPrefix(by, "whereabouts@") && e.sandbox == b.id {
			continue
		}
		excuse := firstOf(b.excuse, b.machine.dead)
		if !strings.HasPrefix(by, "manager") && w.since()-l.webhookMissed < time.Second {
			excuse = firstOf(excuse, "no replica judged the removal")
		}
		if b.left && !w.plan.Agents && w.setForward() {
			excuse = firstOf(excuse, "the clock of a manager is set forward, and without agents that makes the delays shorter") // docs/limits.md
		}
		if excuse != "" {
			w.noteLocked("excused removal of %s under %s: %s", e.address, b, excuse)
			b.excuse = excuse
			continue
		}
		w.violateLocked("release", "%s took %s from the pool, which %s uses", by, e.address, b)
	}
}

// hasEntry says whether the pool has the address for this sandbox.
func (w *World) hasEntry(b *box, address string) bool {
	for _, pool := range w.server.All("ippools") {
		if slices.ContainsFunc(entriesOf(pool.Object), func(e entry) bool { return e.address == address && e.sandbox == b.id }) {
			return true
		}
	}
	return false
}

func (w *World) noteLocked(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9s  ", w.since().Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (w *World) violate(check, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violateLocked(check, format, args...)
}

func (w *World) violateLocked(check, format string, args ...any) {
	v := Violation{At: w.since(), Check: check, Why: fmt.Sprintf(format, args...)}
	w.noteLocked("VIOLATION %s", v)
	w.found = append(w.found, v)
}
