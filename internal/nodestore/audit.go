// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// thisNode stands for the Node in the queries of the audit to internal/handshake: they are to one node, not to all.
const thisNode types.UID = "this-node"

// Audit holds readings of the stores against looks at the runtime, and remembers what it needs of the earlier ones. It is not
// safe for concurrent use.
type Audit struct {
	settings handshake.Settings
	memory   handshake.Memory
	standing map[Finding]Finding
	// once are findings of the last reading that were not reported yet.
	once map[Finding]bool
}

// NewAudit makes an audit that has seen nothing.
func NewAudit(settings handshake.Settings) *Audit { return &Audit{settings: settings} }

// Report is the result of one reading and one look.
type Report struct {
	// Entries is the number of entries that were read.
	Entries map[Backend]int
	// Standing are all present findings, Begun the new ones among them, and Over those that ended.
	Standing, Begun, Over []Finding
	// Gone are the entries whose sandbox this very look proves to be gone. A leak that stands because the list failed is not among them.
	Gone []Entry
}

// pass is one reading with its look.
type pass struct {
	entries []Entry
	present map[Entry]bool
	unknown []Store
	look    handshake.Look
	listed  map[string]bool
	found   map[Finding]Finding
	gone    []Entry
}

// Compare takes in what was read of the stores, when the last of them had been read, and a look at the runtime. A list that began
// before read shows nothing.
func (a *Audit) Compare(readings []Reading, read time.Time, look handshake.Look) Report {
	p := newPass(readings, look)
	a.judge(p, read)
	p.findDuplicates()
	begun, over := a.update(p)
	report := Report{Entries: map[Backend]int{}, Begun: begun, Over: over, Gone: p.gone}
	for i := range readings {
		report.Entries[readings[i].Store.Backend] += len(readings[i].Entries)
	}
	for _, f := range a.standing {
		report.Standing = append(report.Standing, f)
	}
	sortFindings(report.Standing)
	return report
}

func newPass(readings []Reading, look handshake.Look) *pass {
	p := &pass{present: map[Entry]bool{}, look: look, listed: map[string]bool{}, found: map[Finding]Finding{}}
	for i := range readings {
		r := &readings[i]
		if r.Unknown {
			p.unknown = append(p.unknown, r.Store)
		}
		for _, d := range r.Defects {
			p.add(ofDefect(d))
		}
		for _, e := range r.Entries {
			p.entries = append(p.entries, e)
			p.present[e] = true
		}
	}
	if look.Listing != nil {
		for i := range look.Listing.Sandboxes {
			p.listed[look.Listing.Sandboxes[i].ID] = true
		}
	}
	return p
}

func (p *pass) add(f Finding) { p.found[f.key()] = f }

// judge queries internal/handshake about the sandbox of every entry.
func (a *Audit) judge(p *pass, read time.Time) {
	queries := make([]handshake.Query, len(p.entries))
	for i, e := range p.entries {
		queries[i] = handshake.Query{SandboxID: e.SandboxID, NodeUID: thisNode, Seen: read}
	}
	a.memory.Expect(queries)
	a.memory.Observe(p.look)
	for i, e := range p.entries {
		outcome := handshake.Judge(queries[i], p.look, a.row(queries[i]), a.settings)
		switch {
		case outcome.Kind != handshake.Decided:
		case p.listed[e.SandboxID]:
			if outcome.Reason != v1alpha1.ReasonSandboxReady {
				p.add(ofEntry(v1alpha1.ReasonAddressOfStoppedSandbox, e, "the runtime lists the sandbox as not ready"))
			}
		case outcome.Verdict == v1alpha1.VerdictReadyForRelease:
			p.gone = append(p.gone, e)
			p.add(ofEntry(v1alpha1.ReasonAddressLeaked, e, "no list of the runtime showed the sandbox for longer than %s", a.settings.SandboxCreationMax))
		}
	}
}

// row is what is remembered of a sandbox, as if it had never been listed: then only the row of lists without it counts. That a
// sandbox which was seen is gone is proven by one list; but its CNI DEL may still be on its way. Whether its pod has another sandbox is
// left out too: these IPAMs give every sandbox an entry of its own.
func (a *Audit) row(q handshake.Query) handshake.Recollection {
	known := a.memory.Recall(q)
	return handshake.Recollection{AbsentSince: known.AbsentSince, Clash: known.Clash}
}

// update updates the standing findings, and returns those that began and those that ended.
func (a *Audit) update(p *pass) (begun, over []Finding) {
	standing, once := map[Finding]Finding{}, map[Finding]bool{}
	for k, f := range p.found {
		_, stood := a.standing[k]
		switch {
		case stood:
			standing[k] = f
		case f.isProven() || a.once[k]:
			standing[k] = f
			begun = append(begun, f)
		default:
			once[k] = true
		}
	}
	for k, f := range a.standing {
		if _, still := standing[k]; still {
			continue
		}
		if p.mayStand(&f) {
			standing[k] = f
		} else {
			over = append(over, f)
		}
	}
	a.standing, a.once = standing, once
	sortFindings(begun)
	sortFindings(over)
	return begun, over
}

// mayStand: nothing in this pass shows that a finding of an earlier one is over.
func (p *pass) mayStand(f *Finding) bool {
	for _, u := range p.unknown {
		sameStore := u.Backend == f.Store.Backend && u.Source == f.Store.Source && (u.Name == "" || u.Name == f.Store.Name)
		if sameStore || u.Backend == f.Store.Backend && f.Kind == v1alpha1.ReasonAddressInTwoNetworks {
			return true
		}
	}
	switch {
	case !f.needsList() || !p.present[f.Entry]:
		return false
	case p.look.Listing == nil:
		return true
	default:
		// A failed list ended the series of lists that proved it; the sandbox is gone nevertheless.
		return f.Kind == v1alpha1.ReasonAddressLeaked && !p.listed[f.Entry.SandboxID]
	}
}
