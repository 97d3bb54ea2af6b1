// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Evidence is one fact that the decision rests on.
type Evidence struct {
	// Fact says what was looked at.
	Fact string `json:"fact"`
	// State is Known, Absent (read, and not there) or Unknown (could not be read).
	State string `json:"state"`
	// Value is what was found, or why it could not be read.
	Value string `json:"value,omitempty"`
	// Source is where it was read.
	Source string `json:"source"`
}

const (
	known   = "Known"
	absent  = "Absent"
	unknown = "Unknown"
)

// evidence lists the facts, in the order of the table's rows.
func (f *Facts) evidence(entries []held, o release.Observation, now time.Time) []Evidence {
	rows := append(f.podEvidence(), f.policyEvidence()...)
	rows = append(rows, f.poolEvidence(entries)...)
	rows = append(rows, f.nodeEvidence(o)...)
	rows = append(rows, goneEvidence(o, now)...)
	if f.Record != nil {
		rows = append(rows, f.recordEvidence()...)
	}
	return append(rows, Evidence{"settings", known, fmt.Sprintf("evidence %s; releaseDelay %s, gracePeriodSlack %s, sandboxCreationMax %s, nodeGoneDelay %s",
		evidenceName(f.Evidence), f.Settings.ReleaseDelay, f.Settings.GracePeriodSlack, f.Settings.SandboxCreationMax, f.Settings.NodeGoneDelay), f.ConfigurationSource})
}

func evidenceName(e release.Evidence) string {
	if e == release.EvidenceAgent {
		return "Agent"
	}
	return "Kubelet"
}

func (f *Facts) podEvidence() []Evidence {
	pod := f.pod()
	if pod == nil {
		row := Evidence{Fact: "pod object", State: absent, Source: "Pod " + f.Ref.String()}
		switch {
		case !f.Pod.IsAbsent():
			row.State, row.Value = unknown, f.Pod.Why()
		case f.SameName != nil:
			row.Value = "another UID has the name: " + string(f.SameName.UID)
		}
		return []Evidence{row}
	}
	value := "not being deleted"
	if pod.DeletionTimestamp != nil {
		value = fmt.Sprintf("deletion asked for at %s, grace period ends at %s", inspect.Timestamp(inspect.At(release.DeletionRequested(pod))), inspect.Timestamp(pod.DeletionTimestamp))
	}
	rows := []Evidence{{"pod object", known, value, "Pod " + f.Ref.String()},
		{"end of the pod", known, fmt.Sprintf("phase %s: %s", pod.Status.Phase, f.endingText(pod)), "status.phase and who wrote it (managedFields)"}}
	if torn := release.PodTornDown(pod); !torn.IsZero() {
		rows = append(rows, Evidence{"sandbox, as the kubelet reports it", known, "none any more, since " + inspect.Timestamp(inspect.At(torn)), "condition PodReadyToStartContainers"})
	}
	return rows
}

var endingText = map[release.Ending]string{
	release.EndingNone:      "not ended",
	release.EndingFinished:  "the kubelet ended it after its deletion, so every sandbox was stopped",
	release.EndingCompleted: "the kubelet ended it before its deletion, or it is unknown whether it was after",
	release.EndingRejected:  "the kubelet refused it, and killed nothing",
	release.EndingShared: "the kubelet ended it, under a field manager that PodGC has too (k3s, MicroK8s): with agents it counts where no entry is left, " +
		"without them nowhere",
	release.EndingForeign: "a client other than the kubelet wrote that phase (PodGC, for one): no proof",
}

// endingText says of a phase under the kubelet's name that others can have written it whose it may be.
func (f *Facts) endingText(pod *corev1.Pod) string {
	ending := facts.Ending(f.podFact(), f.Record)
	if seen := release.PodEnding(pod); ending == release.EndingForeign && (seen.ByKubelet() || seen == release.EndingShared) {
		return "it stands under the kubelet's name, and other accounts can have written that: no proof"
	}
	return endingText[ending]
}

func (f *Facts) poolEvidence(entries []held) []Evidence {
	if !f.Entries.IsKnown() {
		return []Evidence{{"entries in the pools", unknown, f.Entries.Why(), "IPPools"}}
	}
	if len(entries) == 0 && !isOrphan(f.Record) {
		return []Evidence{{"entries in the pools", absent, "", "every IPPool"}}
	}
	var rows []Evidence
	for i := range entries {
		h := &entries[i]
		value := fmt.Sprintf("%s on %s for sandbox %s, podref %s, by %s", h.IP, orNone(h.Interface), h.SandboxID, h.PodRef, h.Attribution)
		switch {
		case h.Superseded:
			value += "; by now the pool has it for another sandbox"
		case h.Releasing != "":
			value += "; its release has begun"
		}
		if len(h.rivals) > 0 {
			value += "; also held by " + strings.Join(h.rivals, ", ")
		}
		rows = append(rows, Evidence{"entry", known, value, "IPPool " + h.Pool})
	}
	return rows
}

func orNone(text string) string {
	if text == "" {
		return "no interface"
	}
	return text
}

func (f *Facts) nodeEvidence(o release.Observation) []Evidence {
	name := f.nodeName()
	switch {
	case name == "":
		return []Evidence{{"node", absent, "not bound, or its node is unknown", "spec.nodeName"}}
	case f.Node.IsAbsent():
		return []Evidence{{"node", absent, "there is no Node of that name", "Node " + name}}
	case !f.Node.IsKnown():
		return []Evidence{{"node", unknown, f.Node.Why(), "Node " + name}}
	}
	node := facts.Node(f.Node.Get())
	value := "not Ready"
	if node.Ready {
		value = "Ready"
	}
	if since := readySince(f.Node.Get()); !since.IsZero() {
		value += " since " + inspect.Timestamp(since)
	}
	if node.OutOfService {
		value += ", tainted out-of-service"
	}
	rows := []Evidence{{"node", known, value + ", UID " + string(node.NodeUID), "Node " + name}}
	for _, s := range o.Sandboxes.Get() {
		row := Evidence{Fact: "machine of sandbox " + inspect.Short(s.ID), State: unknown, Value: s.Machine.Why(), Source: "the record, against Node " + name}
		if s.Machine.IsKnown() {
			row.State, row.Value = known, relationText[release.Compare(s.Machine.Get(), node.Machine)]
		}
		rows = append(rows, row)
	}
	return rows
}

// goneEvidence says since when the machines of a pod are gone.
func goneEvidence(o release.Observation, now time.Time) []Evidence {
	row := Evidence{"machine gone", absent, "no GuardedNode says since when: the delay is counted by the manager alone", "GuardedNodes"}
	switch since := o.NodeGoneSince.Get(); {
	case !o.NodeGoneSince.IsKnown():
		return nil
	case o.SignOfLife != "":
		row.State, row.Value = known, fmt.Sprintf("since %s; started again because %s", inspect.Timestamp(inspect.At(since)), o.SignOfLife)
	case since.Before(now):
		row.State, row.Value = known, "since "+inspect.Timestamp(inspect.At(since))
	}
	return []Evidence{row}
}

var relationText = map[release.Relation]string{
	release.SameMachine:  "the same boot of the same machine",
	release.Reregistered: "the same boot of the same machine, under a new Node object",
	release.Rebooted:     "the same machine, booted again since",
	release.Resembling:   "the same machine, booted and registered again since, or a clone with its IDs",
	release.Replaced:     "another machine has the node's name, or it cannot be shown to be the same",
}

func readySince(node *corev1.Node) *metav1.Time {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return &c.LastTransitionTime
		}
	}
	return nil
}

// reporter says whose kubelet a report is.
func reporter(k *v1alpha1.KubeletReport) string {
	if k.Node == nil {
		return "and no Node object is recorded that stood from before the end until then"
	}
	return fmt.Sprintf("under Node UID %s, machine ID %q, boot ID %q", k.Node.UID, k.Node.MachineID, k.Node.BootID)
}

func (f *Facts) recordEvidence() []Evidence {
	r, source := f.Record, "IPAllocation "+f.Record.Name
	var rows []Evidence
	if k := r.Spec.Kubelet; k != nil {
		rows = append(rows, Evidence{"kubelet's report", known, fmt.Sprintf("%s, proven at %s, %s", k.Ending, inspect.Timestamp(&k.ObservedTime), reporter(k)), source})
	}
	return append(rows, f.queryEvidence()...)
}

// queryEvidence says what the agent of the node was queried about, and how it responded.
func (f *Facts) queryEvidence() []Evidence {
	var rows []Evidence
	queries := f.queries()
	keys := queries.All()
	for i, key := range keys {
		source := "GuardedNode " + string(key.NodeUID)
		exchange := queries.About(key.SandboxID, key.NodeUID)
		row := Evidence{Fact: "query about sandbox " + inspect.Short(key.SandboxID), State: absent,
			Value: fmt.Sprintf("made at %s (epoch %d), no response", inspect.Timestamp(inspect.At(exchange.Query.Get().Time)), exchange.Query.Get().Epoch), Source: source}
		if r, responded := exchange.Responded(); responded {
			row.State, row.Value = known, fmt.Sprintf("%s, %s, at %s (epoch %d)", r.Verdict, r.Reason, inspect.Timestamp(inspect.At(r.Time)), r.Epoch)
		}
		rows = append(rows, row)
		isLast := i+1 == len(keys) || keys[i+1].NodeUID != key.NodeUID
		if why := queries.NotResponding(key.NodeUID); isLast && why.Reason != "" {
			rows = append(rows, Evidence{"agent not responding", known, string(why.Reason) + ": " + why.Message, source})
		}
	}
	return rows
}

// claimEvidence says which nodes claim the sandbox of an orphan.
func (f *Facts) claimEvidence() []Evidence {
	if !f.GuardedNodes.IsKnown() {
		return []Evidence{{"claims of nodes", unknown, f.GuardedNodes.Why(), "GuardedNodes"}}
	}
	var rows []Evidence
	for _, object := range f.GuardedNodes.Get() {
		if object.Status.AllNodes == nil {
			continue
		}
		for _, c := range object.Status.AllNodes.Claims {
			if v1alpha1.OrphanPrefix+c.SandboxID == f.Record.Name {
				rows = append(rows, Evidence{"claim of node " + object.Spec.NodeName, known,
					fmt.Sprintf("%s, at %s, seen with pod UID %q", c.Reason, inspect.Timestamp(&c.Time), c.PodUID), "GuardedNode " + object.Name})
			}
		}
	}
	return rows
}
