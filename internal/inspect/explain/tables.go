// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
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

// notes are what the decision alone does not show.
func (f *Facts) notes(e *Explanation, d release.Decision) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if f.Unserved.Records {
		note("%s: there are no records, and nothing is protected, held or released.", inspect.NoHoldfast)
	}
	if f.Unserved.Pools {
		note("%s: no pool has any address.", inspect.NoWhereabouts)
	}
	switch others := e.otherHolders(); {
	case e.State == StateTerminating && others != "":
		notes = append(notes, others)
	case e.State == StateGone && f.SameName != nil:
		note("The name belongs to another pod now, UID %s; it is not this one.", f.SameName.UID)
	}
	if e.LastReason != "" && e.Held {
		notes = append(notes, e.lastReport()...)
	}
	if pod := f.pod(); pod != nil && pod.DeletionTimestamp != nil && facts.Ending(f.podFact(), f.Record) == release.EndingCompleted {
		note("A manager that observed the deletion before the termination accepts the kubelet's report and releases earlier; the pod object alone does not show this.")
	}
	return notes
}

// lastReport is another reason of the manager. What it failed at comes first in the explanation, and not here.
func (e *Explanation) lastReport() []string {
	if e.failed() {
		return nil
	}
	return []string{fmt.Sprintf("The manager reported another reason last, %s: %s. It is behind by a moment, counts a delay again since it started, or does not run. "+
		"If this lasts, see kubectl holdfast doctor.", e.LastReason, e.LastMessage)}
}

// otherHolders describes what else keeps a terminating object, or that Holdfast does not keep it; empty where only Holdfast does.
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
	return "Holdfast does not keep this object: it has no finalizer of ours. Waiting for the kubelet to delete the pod."
}

// Tables show the explanation.
func (e *Explanation) Tables(now time.Time) []inspect.Table {
	noEnds := ""
	if e.Held {
		noEnds = "No single change that this command knows of would. See the reason's page in the runbook."
	}
	return []inspect.Table{
		e.summary(now),
		inspect.TableOf("ADDRESSES", "IP,INTERFACE,POOL,SANDBOX,STANDING,ROW,ACTION,REASON,+ATTRIBUTION,+NETWORK,+ALSO HELD BY", "", e.Addresses, func(a *Address) []string {
			return []string{a.IP, a.Interface, a.Pool, inspect.Short(a.SandboxID), a.Standing, string(a.Decision.Row), string(a.Decision.Action), string(a.Decision.Reason),
				string(a.Attribution), a.Network, strings.Join(a.Rivals, ",")}
		}),
		inspect.TableOf("WHAT WOULD END IT", "WHAT,THEN,CAUTION", noEnds, e.Ends, func(end *End) []string {
			return []string{end.What, end.Then, end.Caution}
		}),
		inspect.TableOf("EVIDENCE", "FACT,STATE,VALUE,+SOURCE", "", e.Evidence, func(row *Evidence) []string {
			return []string{row.Fact, row.State, row.Value, row.Source}
		}),
		inspect.TableOf("EVENTS", "AGE,TYPE,REASON,NOTE,+COUNT,+ABOUT", "", e.Events, func(event *inspect.Event) []string {
			return []string{inspect.Age(inspect.At(event.Last), now), event.Type, event.Reason, event.Note, strconv.Itoa(int(event.Count)), event.About()}
		}),
		{Lines: e.Notes},
	}
}

func (e *Explanation) summary(now time.Time) inspect.Table {
	var t inspect.Table
	switch {
	case e.Held:
		// How long the deletion waits, or how long the manager has reported the reason.
		since := inspect.Age(cmp.Or(e.Since, e.ReasonSince), now)
		reason, message := string(e.Decision.Reason), e.Decision.Message
		if e.failed() {
			reason, message = e.LastReason, e.LastMessage
		}
		t.Line("%s  %s: %s", strings.TrimSpace("HELD "+since), reason, message)
	case e.NotInstalled:
		t.Line("NOT HELD  Holdfast is not installed. The rest is what its manager would go by.")
	case e.Decision.Reason == v1alpha1.ReasonPodInUse:
		t.Line("NOT HELD  the pod is not being deleted, and its addresses are its own.")
	default:
		t.Line("NOT HELD  %s", e.Decision.Reason)
	}
	state := e.State
	if e.Since != nil {
		state += fmt.Sprintf(" for %s (since %s)", inspect.Age(e.Since, now), inspect.Timestamp(e.Since))
	}
	if e.Node != "" {
		state += ", on node " + e.Node
	}
	if e.UID == "" {
		t.Line("Record %s, of addresses whose owner is unknown; the IPAM names pod %s", e.Record, e.Pod)
	} else {
		t.Line("Pod %s (UID %s): %s", e.Pod, e.UID, state)
	}
	t.Line("%s", e.Decision.line())
	if e.ReasonSince != nil {
		t.Line("The manager has reported this for %s (since %s)", inspect.Age(e.ReasonSince, now), inspect.Timestamp(e.ReasonSince))
	}
	return t
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
