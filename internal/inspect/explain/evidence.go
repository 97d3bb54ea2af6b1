// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// Evidence is one fact that the decision rests on.
type Evidence struct {
	// Fact names it.
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

// evidenceOf shows a fact; missing is its value where it is absent.
func evidenceOf[T any](name string, fact release.Fact[T], missing, source string, value func(T) string) Evidence {
	switch {
	case fact.IsKnown():
		return Evidence{name, known, value(fact.Get()), source}
	case fact.IsAbsent():
		return Evidence{name, absent, missing, source}
	}
	return Evidence{name, unknown, fact.Why(), source}
}

// evidence lists the facts, in the order of the table's rows.
func (f *Facts) evidence(entries []held, o release.Observation, now time.Time) []Evidence {
	rows := f.podEvidence()
	if f.Evidence == release.EvidenceAgent {
		rows = append(rows, f.policyEvidence())
	}
	rows = append(rows, f.poolEvidence(entries)...)
	rows = append(rows, f.nodeEvidence(o)...)
	rows = append(rows, goneEvidence(o, now)...)
	if f.Record != nil {
		rows = append(rows, f.recordEvidence()...)
	}
	name := "Kubelet"
	if f.Evidence == release.EvidenceAgent {
		name = "Agent"
	}
	return append(rows, Evidence{"settings", known, fmt.Sprintf("evidence %s; releaseDelay %s, gracePeriodSlack %s, sandboxCreationMax %s, nodeGoneDelay %s",
		name, f.Settings.ReleaseDelay, f.Settings.GracePeriodSlack, f.Settings.SandboxCreationMax, f.Settings.NodeGoneDelay), f.ConfigurationSource})
}

func (f *Facts) podEvidence() []Evidence {
	missing := ""
	if f.SameName != nil {
		missing = "another UID has the name: " + string(f.SameName.UID)
	}
	rows := []Evidence{evidenceOf("pod object", f.Pod, missing, "Pod "+f.Ref.String(), func(pod *corev1.Pod) string {
		if pod.DeletionTimestamp == nil {
			return "not being deleted"
		}
		return fmt.Sprintf("deletion asked for at %s, grace period ends at %s", inspect.Timestamp(inspect.At(release.DeletionRequested(pod))), inspect.Timestamp(pod.DeletionTimestamp))
	})}
	pod := f.pod()
	if pod == nil {
		return rows
	}
	rows = append(rows, Evidence{"end of the pod", known, fmt.Sprintf("phase %s: %s", pod.Status.Phase, f.endingText(pod)), "status.phase and who wrote it (managedFields)"})
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

func (f *Facts) endingText(pod *corev1.Pod) string {
	ending := facts.Ending(f.podFact(), f.Record)
	if seen := release.PodEnding(pod); ending == release.EndingForeign && (seen.ByKubelet() || seen == release.EndingShared) {
		return "it stands under the kubelet's name, and other accounts can have written that: no proof"
	}
	return endingText[ending]
}

// policyEvidence is what makes a kubelet's report evidence where agents can be queried instead.
func (f *Facts) policyEvidence() Evidence {
	row := evidenceOf("policies about a kubelet's report", f.Policies, "", reportpolicy.KubeletReports+", "+reportpolicy.NodeIdentity, func(policies reportpolicy.Judgement) string {
		if !policies.InForce() {
			return policies.Problem
		}
		return "in force since " + inspect.Timestamp(inspect.At(policies.Since))
	})
	if f.Policies.IsKnown() && !f.Policies.Get().InForce() {
		row.State = absent
	}
	return row
}

func (f *Facts) poolEvidence(entries []held) []Evidence {
	switch {
	case !f.Entries.IsKnown():
		return []Evidence{{"entries in the pools", unknown, f.Entries.Why(), "IPPools"}}
	case len(entries) == 0 && !f.Record.IsOrphan():
		return []Evidence{{"entries in the pools", absent, "", "every IPPool"}}
	}
	var rows []Evidence
	for i := range entries {
		h := &entries[i]
		value := fmt.Sprintf("%s on %s for sandbox %s, podref %s, by %s", h.IP, cmp.Or(h.Interface, "no interface"), h.SandboxID, h.PodRef, h.Attribution)
		switch {
		case h.Removed:
			value += "; the pool does not have it any more"
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

func (f *Facts) nodeEvidence(o release.Observation) []Evidence {
	name := f.nodeName()
	if name == "" {
		return []Evidence{{"node", absent, "not bound, or its node is unknown", "spec.nodeName"}}
	}
	rows := []Evidence{evidenceOf("node", f.Node, "there is no Node of that name", "Node "+name, nodeText)}
	if !f.Node.IsKnown() {
		return rows
	}
	live := facts.Node(f.Node.Get()).Machine
	for _, s := range o.Sandboxes.Get() {
		rows = append(rows, evidenceOf("machine of sandbox "+inspect.Short(s.ID), s.Machine, "", "the record, against Node "+name, func(ran release.Machine) string {
			return relationText[release.Compare(ran, live)]
		}))
	}
	return rows
}

func nodeText(node *corev1.Node) string {
	n := facts.Node(node)
	value := "not Ready"
	if n.Ready {
		value = "Ready"
	}
	if !n.ReadySince.IsZero() {
		value += " since " + inspect.Timestamp(inspect.At(n.ReadySince))
	}
	if n.OutOfService {
		value += ", tainted out-of-service"
	}
	return value + ", UID " + string(node.UID)
}

// goneEvidence shows since when the machines of a pod are gone.
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

// recordEvidence is the kubelet's report, and the queries to agents with their responses.
func (f *Facts) recordEvidence() []Evidence {
	var rows []Evidence
	if k := f.Record.Spec.Kubelet; k != nil {
		reporter := "and no Node object is recorded that stood from before the end until then"
		if k.Node != nil {
			reporter = fmt.Sprintf("under Node UID %s, machine ID %q, boot ID %q", k.Node.UID, k.Node.MachineID, k.Node.BootID)
		}
		rows = append(rows, Evidence{"kubelet's report", known, fmt.Sprintf("%s, proven at %s, %s", k.Ending, inspect.Timestamp(&k.ObservedTime), reporter), "IPAllocation " + f.Record.Name})
	}
	queries := f.queries()
	keys := queries.All()
	for i, key := range keys {
		exchange, source := queries.About(key.SandboxID, key.NodeUID), "GuardedNode "+string(key.NodeUID)
		row := Evidence{"query about sandbox " + inspect.Short(key.SandboxID), absent,
			fmt.Sprintf("made at %s (epoch %d), no response", inspect.Timestamp(inspect.At(exchange.Query.Get().Time)), exchange.Query.Get().Epoch), source}
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

// claimEvidence shows which nodes claim the sandbox of an orphan.
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
			if v1alpha1.OrphanPrefix+c.SandboxID != f.Record.Name {
				continue
			}
			what := fmt.Sprintf("seen with pod UID %q", c.PodUID)
			if c.PodUID == "" && c.Reason == string(v1alpha1.ReasonSandboxReplaced) {
				what = fmt.Sprintf("for another sandbox of pod UID %q", f.Record.Spec.DisownedBy)
			}
			rows = append(rows, Evidence{"claim of node " + object.Spec.NodeName, known,
				fmt.Sprintf("%s, at %s, %s", c.Reason, inspect.Timestamp(&c.Time), what), "GuardedNode " + object.Name})
		}
	}
	return rows
}

// unjudged explains why a kubelet's report does not count here, and what to do; empty where it counts, or where the table would decide the
// same if it did.
func (f *Facts) unjudged(e entries, d release.Decision, now time.Time) string {
	counted := *f
	counted.Policies = release.Known(reportpolicy.Judgement{Since: time.Unix(0, 0)}) // in force before everything that was read
	if then := release.Decide(counted.observation(e, now), now); then.Row == d.Row && then.Message == d.Message {
		return ""
	}
	const what = "What the kubelet of its node reports does not count for this pod, because other accounts can have written it: "
	switch policies := f.Policies.Get(); {
	case !f.Policies.IsKnown():
		return what + "whether admission policies refuse that could not be read (" + f.Policies.Why() +
			"). To do: explain with the right to list validatingadmissionpolicies and validatingadmissionpolicybindings."
	case !policies.InForce():
		return what + policies.Problem + ". To do: " + policies.Fix + ". This pod is older than they will be then: it waits for what the agent of its node reports."
	default:
		return what + "the admission policies that refuse that are in force only since " + inspect.Timestamp(inspect.At(policies.Since)) +
			". Nothing to do: the agent of its node is queried."
	}
}
