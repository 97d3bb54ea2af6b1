// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Tables show the report.
func (r *Report) Tables(time.Time) []inspect.Table {
	var head inspect.Table
	l := r.Looked
	head.Say("Compared at %s: %d entries, %d pods, %d records, %d nodes, %d reservations, %d node resource policies.",
		inspect.Timestamp(&r.Time), l.Entries, l.Pods, l.Records, l.Nodes, l.Reservations, l.Policies)
	if l.Claimed > 0 {
		head.Say("%d of the entries belong to ResourceClaims that exist.", l.Claimed)
	}
	counts := map[Class]int{}
	releasable := 0
	for i := range r.Findings {
		counts[r.Findings[i].Class]++
		if r.Findings[i].Releasable {
			releasable++
		}
	}
	var parts []string
	for _, class := range Classes {
		if counts[class] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", class, counts[class]))
		}
	}
	for _, note := range r.Notes {
		head.Say("%s", note)
	}
	if len(parts) > 0 {
		head.Say("Found: %s.", strings.Join(parts, ", "))
	}
	return []inspect.Table{head, r.found(), r.advice(), r.tail(releasable)}
}

func (r *Report) found() inspect.Table {
	t := inspect.Table{Columns: inspect.Columns("CLASS", "KIND", "ADDRESS", "POD", "FOUND", "+UID", "+NODE", "+POOL", "+SANDBOX", "+KEPT BECAUSE"), None: "No inconsistencies found."}
	for i := range r.Findings {
		f := &r.Findings[i]
		pool, sandbox := "", ""
		if f.Entry != nil {
			pool, sandbox = f.Entry.Pool, f.Entry.SandboxID
		}
		t.Add(string(f.Class), f.Kind, f.Address, strings.Join(f.Pods, ","), f.Message, join(f.UIDs), f.Node, pool, sandbox, f.KeptBecause)
	}
	return t
}

// advice says once what is to be done about findings of one kind.
func (r *Report) advice() inspect.Table {
	do := inspect.Table{Heading: "WHAT TO DO", Columns: inspect.Columns("KIND", "ADDRESS", "DO")}
	for i := range r.Findings {
		f := &r.Findings[i]
		if i == 0 || f.Kind != r.Findings[i-1].Kind || f.Do != r.Findings[i-1].Do {
			do.Add(f.Kind, f.Address, f.Do)
		}
	}
	return do
}

func (r *Report) tail(releasable int) inspect.Table {
	tail := inspect.Table{}
	for _, unread := range r.Unread {
		tail.Say("NOT READ: %s", unread)
	}
	if releasable > 0 {
		tail.Say("%d of the leaks may be released once a later report agrees: kubectl holdfast release --from-report FIRST --from-report SECOND.", releasable)
	}
	return tail
}

func join(uids []types.UID) string {
	texts := make([]string, 0, len(uids))
	for _, uid := range uids {
		texts = append(texts, string(uid))
	}
	return strings.Join(texts, ",")
}
