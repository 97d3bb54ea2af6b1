// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// notes say what the decision alone does not.
func (f *Facts) notes(e *Explanation, d release.Decision) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if f.Unserved.Records {
		note("%s: there are no records, and nothing is protected, held or released.", inspect.NoHoldfast)
	}
	if f.Unserved.Pools {
		note("%s: no pool has any address.", inspect.NoWhereabouts)
	}
	switch {
	case e.State == StateTerminating:
		if text := e.otherHolders(); text != "" {
			notes = append(notes, text)
		}
	case e.State == StateGone && f.SameName != nil:
		note("The name belongs to another pod now, UID %s; it is not this one.", f.SameName.UID)
	}
	if e.LastReason != "" && e.Held {
		note("The manager said %s last; these facts say %s. It is behind by a moment, or does not run: see kubectl holdfast doctor.", e.LastReason, d.Reason)
	}
	if pod := f.pod(); pod != nil && pod.DeletionTimestamp != nil && facts.Ending(f.podFact(), f.Record) == release.EndingCompleted {
		note("A manager that saw the pod deleting and not ended counts its end as one after the deletion, and goes on sooner; the object alone does not show that.")
	}
	return notes
}

// otherHolders says who else keeps a terminating object, or that Holdfast does not; empty where Holdfast alone does.
func (e *Explanation) otherHolders() string {
	others := strings.Join(slices.DeleteFunc(slices.Clone(e.Finalizers), func(name string) bool { return name == v1alpha1.Finalizer }), ", ")
	switch {
	case e.Guarded && others != "":
		return "Finalizers of others keep the object too: " + others + "."
	case e.Guarded:
		return ""
	case others != "":
		return "Holdfast does not keep this object: it has no finalizer of ours. What keeps it: " + others + "."
	}
	return "Holdfast does not keep this object: it has no finalizer of ours. It waits for its kubelet."
}

// Tables show the explanation.
func (e *Explanation) Tables(now time.Time) []inspect.Table {
	return []inspect.Table{e.summary(now), e.addresses(), e.ends(), e.evidence(), e.events(now), {Lines: e.Notes}}
}

func (e *Explanation) summary(now time.Time) inspect.Table {
	var t inspect.Table
	switch {
	case e.Held:
		t.Say("%s  %s: %s", strings.TrimSpace("HELD "+e.heldFor(now)), e.Decision.Reason, e.Decision.Message)
	case e.NotInstalled:
		t.Say("NOT HELD  Holdfast is not installed. The rest is what its manager would go by.")
	case e.Decision.Reason == v1alpha1.ReasonPodInUse:
		t.Say("NOT HELD  the pod is not being deleted, and its addresses are its own.")
	default:
		t.Say("NOT HELD  %s", e.Decision.Reason)
	}
	state := e.State
	if e.Since != nil {
		state += fmt.Sprintf(" for %s (since %s)", inspect.Age(e.Since, now), inspect.Timestamp(e.Since))
	}
	if e.Node != "" {
		state += ", on node " + e.Node
	}
	if e.UID == "" {
		t.Say("Record %s, of addresses whose owner is unknown; the IPAM names pod %s", e.Record, e.Pod)
	} else {
		t.Say("Pod %s (UID %s): %s", e.Pod, e.UID, state)
	}
	t.Say("%s", e.Decision.line())
	if e.ReasonSince != nil {
		t.Say("The manager has reported this for %s (since %s)", inspect.Age(e.ReasonSince, now), inspect.Timestamp(e.ReasonSince))
	}
	return t
}

// heldFor is how long the deletion waits, or how long the manager has reported the reason; empty where neither is known.
func (e *Explanation) heldFor(now time.Time) string {
	switch {
	case e.Since != nil:
		return inspect.Age(e.Since, now)
	case e.ReasonSince != nil:
		return inspect.Age(e.ReasonSince, now)
	}
	return ""
}

func (d *Decision) line() string {
	text := "Decision: " + string(d.Action)
	if d.Row != "" { // the tables of orphans are in the manager alone
		text += fmt.Sprintf(" (row %s of the decision table)", d.Row)
	}
	if d.After != "" {
		text += ", looked at again in " + d.After + " at the latest"
	}
	return text
}

func (e *Explanation) addresses() inspect.Table {
	t := inspect.Table{Heading: "ADDRESSES", Columns: inspect.Columns("IP", "INTERFACE", "POOL", "SANDBOX", "STANDING", "ROW", "ACTION", "REASON", "+ATTRIBUTION", "+NETWORK", "+ALSO HELD BY")}
	for i := range e.Addresses {
		a := &e.Addresses[i]
		t.Add(a.IP, a.Interface, a.Pool, inspect.Short(a.SandboxID), a.Standing, string(a.Decision.Row), string(a.Decision.Action), string(a.Decision.Reason),
			string(a.Attribution), a.Network, strings.Join(a.Rivals, ","))
	}
	return t
}

func (e *Explanation) ends() inspect.Table {
	t := inspect.Table{Heading: "WHAT WOULD END IT", Columns: inspect.Columns("WHAT", "THEN", "CAUTION")}
	if e.Held && len(e.Ends) == 0 {
		t.None = "No single change that this command knows of would. See the reason's page in the runbook."
	}
	for _, end := range e.Ends {
		t.Add(end.What, end.Then, end.Caution)
	}
	return t
}

func (e *Explanation) evidence() inspect.Table {
	t := inspect.Table{Heading: "EVIDENCE", Columns: inspect.Columns("FACT", "STATE", "VALUE", "+SOURCE")}
	for _, row := range e.Evidence {
		t.Add(row.Fact, row.State, row.Value, row.Source)
	}
	return t
}

func (e *Explanation) events(now time.Time) inspect.Table {
	t := inspect.Table{Heading: "EVENTS", Columns: inspect.Columns("AGE", "TYPE", "REASON", "NOTE", "+COUNT", "+ABOUT")}
	for i := range e.Events {
		event := &e.Events[i]
		t.Add(inspect.Age(inspect.At(event.Last), now), event.Type, event.Reason, event.Note, strconv.Itoa(int(event.Count)), event.About())
	}
	return t
}
