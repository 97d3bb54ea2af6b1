// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"iter"
	"time"
)

// Agreement is what two reports agree on.
type Agreement struct {
	// Entries may be released, as far as the reports say.
	Entries []Entry
	// LeftOut are the leaks of the later report that may not, each in a sentence.
	LeftOut []string
}

// Agree compares two reports of one cluster, given in any order. An entry is agreed on where both name it, equal in every field that
// a release compares, as a leak that may be released. An error: the reports are of different clusters, or less than apart between them.
func Agree(one, other *Report, apart time.Duration) (*Agreement, error) {
	first, second := one, other
	if second.Time.Before(&first.Time) {
		first, second = second, first
	}
	between := second.Time.Sub(first.Time.Time)
	switch {
	case first.Cluster == "" || first.Cluster != second.Cluster:
		return nil, fmt.Errorf("the reports are of different clusters (kube-system has UID %q in one and %q in the other)", first.Cluster, second.Cluster)
	case between < apart:
		return nil, fmt.Errorf("the reports are %s apart, expected %s or more: an entry may be written before its sandbox is listed, and so be new in both", between.Round(time.Second), apart)
	}
	before := map[Entry]bool{}
	for f := range first.leaks() {
		before[*f.Entry] = f.Releasable
	}
	agreement := &Agreement{}
	for f := range second.leaks() {
		switch {
		case !f.Releasable:
			agreement.LeftOut = append(agreement.LeftOut, fmt.Sprintf("%s in %s: %s", f.Address, f.Entry.Pool, f.KeptBecause))
		case !before[*f.Entry]:
			agreement.LeftOut = append(agreement.LeftOut, fmt.Sprintf("%s in %s: the first report does not have it in this form", f.Address, f.Entry.Pool))
		default:
			agreement.Entries = append(agreement.Entries, *f.Entry)
		}
	}
	return agreement, nil
}

// leaks are the findings about entries without a pod.
func (r *Report) leaks() iter.Seq[*Finding] {
	return func(yield func(*Finding) bool) {
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Class == Leak && f.Entry != nil && !yield(f) {
				return
			}
		}
	}
}

// Still reports whether a third audit has the entry as a leak that may be released, and why not.
func (r *Report) Still(e Entry) (still bool, why string) {
	for f := range r.leaks() {
		if *f.Entry == e {
			return f.Releasable, f.KeptBecause
		}
	}
	return false, "it is no leak any more: the entry has changed or gone, or its pod is back"
}
