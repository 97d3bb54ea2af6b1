// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// unserved says which types there is nothing of, and what that means for the findings: one line for each product that is not installed.
func (b *books) unserved() {
	r, u := b.report, b.Unserved
	for _, t := range []struct {
		unserved bool
		resource string
	}{
		{u.Records, inspect.RecordResource}, {u.Policies, inspect.PolicyResource}, {u.Pools, inspect.PoolResource},
		{u.Reservations, inspect.ReservationResource}, {u.Definitions, inspect.DefinitionResource},
	} {
		if t.unserved {
			r.NotServed = append(r.NotServed, t.resource)
		}
	}
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case u.Records && u.Policies:
		note("%s: pools are compared with pods alone. A leak is any entry whose pod does not exist; nothing can lack a record of Holdfast's or contradict one, and nothing is told of node-scoped objects.", inspect.NoHoldfast)
	case u.Records:
		note("Holdfast is installed in part (the API server serves no %s): pools are compared with pods alone. A leak is any entry whose pod does not exist; nothing can lack a record of Holdfast's or contradict one.", inspect.RecordResource)
	case u.Policies:
		note("Holdfast is installed in part (the API server serves no %s): nothing is told of node-scoped objects.", inspect.PolicyResource)
	}
	switch {
	case u.Pools:
		note("%s: there is no entry that anything could contradict.", inspect.NoWhereabouts)
	case u.Reservations:
		note("whereabouts is installed in part (the API server serves no %s): nothing is told of reservations.", inspect.ReservationResource)
	}
	if u.Definitions {
		note("%s: no network is known as one of whereabouts', so that nothing is told of addresses that pods show and no pool has.", inspect.NoMultus)
	}
	if u.Records {
		b.stranded()
	}
}

// strandedShown is how many pods a finding about many names.
const strandedShown = 10

// stranded are pods with our finalizer in a cluster where nobody can take it off.
func (b *books) stranded() {
	f := Finding{Class: Stale, Kind: "FinalizerLeft", Do: "take it off, and whatever else is left, with kubectl holdfast uninstall; or install Holdfast again"}
	count := 0
	for i := range b.Pods {
		if p := &b.Pods[i]; p.Guarded {
			count++
			f.Pods = append(f.Pods, p.Ref.String())
		}
	}
	if count == 0 {
		return
	}
	slices.Sort(f.Pods)
	f.Pods = f.Pods[:min(count, strandedShown)]
	f.Message = fmt.Sprintf("%d pods have Holdfast's finalizer, and stay Terminating once they are deleted, since no controller removes it: %s", count, strings.Join(f.Pods, ", "))
	if count > strandedShown {
		f.Message += ", ..."
	}
	b.report.add(f)
}
