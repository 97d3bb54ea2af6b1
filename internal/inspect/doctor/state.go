// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/list"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// responseWithin is how long a query may stand before its agent counts as not responding.
func responseWithin(f *Facts) time.Duration {
	if f.Configuration.IsKnown() && f.Configuration.Get().Handshakes.ResponseWithin != nil {
		return f.Configuration.Get().Handshakes.ResponseWithin.Duration
	}
	return configv1alpha1.DefaultResponseWithin
}

// agents: one on every node where their reports are needed, and none that does not respond.
func agents(d *Diagnosis, f *Facts, now time.Time) {
	const name = "agents"
	level := Warn
	if evidenceIs(f, configv1alpha1.EvidenceAgent) {
		level = Fail
	} else if f.Agents.IsAbsent() {
		d.ok(name, "not installed, and not needed (evidence: Kubelet)")
		return
	}
	if !d.exists(name, f.Agents, "there is no DaemonSet holdfast-agent/holdfast-agent, and the configuration relies on their reports (evidence: Agent): everything is held",
		"install the agents (config/agent)") || !d.knows(name, f.Nodes, f.GuardedNodes) {
		return
	}
	if withoutAgents(d, f, name, level) {
		return
	}
	if late := withoutResponse(f, now); len(late) > 0 {
		d.add(level, name, "no response to a query for more than "+responseWithin(f).String()+": "+strings.Join(late, "; "), "look at the agent of that node; the condition Responding of its GuardedNode says why (kubectl get gn -o wide)")
	}
	d.ok(name, "one is Ready on each of %d nodes, and no query is without a response", len(f.Nodes.Get()))
}

// agentDelays: manager and agents have the same delays.sandboxCreationMax. Equal ones are expected, and not worth a line.
func agentDelays(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "delays of the agents"
	if !f.Agents.IsKnown() || !f.Configuration.IsKnown() || f.Assumed {
		return // other checks report that
	}
	if !d.knows(name, f.AgentConfiguration) {
		return
	}
	managers, theirs := f.Configuration.Get().Delays.SandboxCreationMax.Duration, f.AgentConfiguration.Get().Delays.SandboxCreationMax.Duration
	const do = "set delays.sandboxCreationMax to one value in both configurations, the longer one unless you know better"
	found := fmt.Sprintf("delays.sandboxCreationMax is %s in the agents' configuration and %s in the manager's", theirs, managers)
	switch {
	case theirs < managers, theirs > 2*managers: // an old query says by the manager's value that the sandbox is not being created any more
		d.add(Fail, name, found+": agents may report that a sandbox is gone while it is still being created", do)
	case theirs > managers:
		d.add(Warn, name, found+": responses about sandboxes that were never listed come later than the manager expects", do)
	}
}

// withoutAgents reports the nodes without an agent that is Ready, and apart from them those that are not Ready themselves, where none can be.
func withoutAgents(d *Diagnosis, f *Facts, name string, level Level) bool {
	var without, down []string
	for _, node := range f.Nodes.Get() {
		system := node.Labels[corev1.LabelOSStable]
		switch {
		case system != "" && system != "linux":
		case slices.ContainsFunc(f.AgentPods, func(p corev1.Pod) bool { return p.Spec.NodeName == node.Name && isPodReady(&p) }):
		case slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		}):
			down = append(down, node.Name)
		default:
			without = append(without, node.Name)
		}
	}
	slices.Sort(without)
	slices.Sort(down)
	if len(without) > 0 {
		d.add(level, name, "no agent is Ready on "+strings.Join(without, ", "), "a node without an agent holds every address that needs its report: look at its pod of DaemonSet holdfast-agent")
	}
	if len(down) > 0 {
		d.add(level, name, "the node is not Ready, and so neither is its agent: "+strings.Join(down, ", "),
			"bring the node back, or taint it node.kubernetes.io/out-of-service once it is really off: until then what its pods hold stays held")
	}
	return len(without)+len(down) > 0
}

func withoutResponse(f *Facts, now time.Time) []string {
	var all []string
	for _, object := range f.GuardedNodes.Get() {
		for _, q := range object.Spec.Queries {
			queries := facts.QueriesIn(release.Known([]v1alpha1.GuardedNode{object}), q.Record)
			if _, responded := queries.About(q.SandboxID, types.UID(object.Name)).Responded(); responded || now.Sub(q.Time.Time) <= responseWithin(f) {
				continue
			}
			text := fmt.Sprintf("record %s, node %s", q.Record, object.Spec.NodeName)
			if why := queries.NotResponding(types.UID(object.Name)); why.Reason != "" {
				text += " (" + string(why.Reason) + ")"
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// policies: each NodeResourcePolicy works.
func policies(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "node resource policies"
	if !d.knows(name, f.Policies) {
		return
	}
	all := f.Policies.Get()
	var waiting []string
	for i := range all {
		p := &all[i]
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PolicyAccepted); c != nil && c.Status == metav1.ConditionTrue && c.Reason == string(v1alpha1.ReasonResourceNotServed) {
			waiting = append(waiting, p.Name)
		}
		for _, kind := range []string{v1alpha1.PolicyAccepted, v1alpha1.PolicyEnforced, v1alpha1.PolicySwept} {
			if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue && c.Reason != string(v1alpha1.ReasonShadowMode) {
				d.add(Warn, name, fmt.Sprintf("%s is not %s: %s, %s", p.Name, kind, c.Reason, c.Message), "see the policy: kubectl describe nrp "+p.Name)
				break
			}
		}
	}
	if len(waiting) > 0 {
		d.add(OK, name, fmt.Sprintf("%d of %d wait for a resource that this cluster does not have, and begin by themselves when it comes: %s", len(waiting), len(all), strings.Join(waiting, ", ")), "")
	}
	d.ok(name, "%d, and each works", len(all))
}

// ipam: the pools are there, and the DaemonSets by which CNI DEL is known.
func ipam(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "IPAM"
	switch {
	case !d.knows(name, f.PoolsServed):
		return
	case !f.PoolsServed.Get():
		d.add(Fail, name, "the API server serves no IPPools: nothing is known of any address, and every pod that may hold one stays protected", "install whereabouts")
		return
	}
	if d.knows(name, f.PoolNamespaces) && f.Configuration.IsKnown() {
		guarded := f.Configuration.Get().Whereabouts.Namespaces
		if outside := sets.List(sets.New(f.PoolNamespaces.Get()...).Delete(guarded...)); len(outside) > 0 {
			d.add(Fail, name, fmt.Sprintf("IPPools in %s are not guarded: whereabouts.namespaces has %s", strings.Join(outside, ", "), strings.Join(guarded, ", ")),
				"add the namespace to whereabouts.namespaces, or delete IPPools that nothing uses")
		}
	}
	for _, daemonSet := range sets.List(sets.KeySet(f.DaemonSets)) {
		if f.DaemonSets[daemonSet].IsAbsent() {
			d.add(Warn, name, "there is no DaemonSet "+daemonSet+", by which the nodes' own CNI DEL is known", "name the one that runs CNI DEL in unsafeReleases.daemonSets; with mode Deny every DEL of another account is refused")
			return
		}
	}
	switch {
	case !d.knows(name, f.SlicePoolsServed):
	case f.SlicePoolsServed.Get():
		d.ok(name, "IPPools are served")
	default:
		d.ok(name, "IPPools are served, and NodeSlicePools are not (whereabouts before 0.9): there are no slices of nodes to keep")
	}
}

// notSafe are the events about removals that were not proven safe, by what became of the removal.
var notSafe = map[string]string{string(v1alpha1.ReasonUnsafeReleaseRefused): "refused", string(v1alpha1.ReasonUnsafeReleaseWarned): "allowed with a warning"}

// reconciler: the reconciler of whereabouts, or any other client, was refused, or warned.
func reconciler(d *Diagnosis, f *Facts, now time.Time) {
	const name, within = "unsafe releases", time.Hour
	if !d.knows(name, f.Events) {
		return
	}
	counts, last := map[string]int32{}, inspect.Event{}
	for _, e := range f.Events.Get() {
		if became := notSafe[e.Reason]; became != "" && now.Sub(e.Last) <= within {
			counts[became] += max(e.Count, 1)
			if e.Last.After(last.Last) {
				last = e
			}
		}
	}
	mode := configv1alpha1.ReleaseMode("unknown")
	if f.Configuration.IsKnown() {
		mode = f.Configuration.Get().UnsafeReleases.Mode
	}
	if len(counts) > 0 {
		var texts []string
		for _, became := range slices.Sorted(maps.Keys(counts)) {
			texts = append(texts, fmt.Sprintf("%d %s", counts[became], became))
		}
		do := "see who it was: whereabouts' own reconciler frees addresses in use (set its schedule to never, or unsafeReleases.mode to Deny); a person, or a node's CNI that is not known (unsafeReleases.daemonSets)"
		if mode == configv1alpha1.ReleaseModeDeny {
			do = "see who it was: for whereabouts' own reconciler, set its schedule to never; for a node's CNI that is not known, name its DaemonSet in unsafeReleases.daemonSets. What is refused frees no address"
		}
		d.add(Warn, name, fmt.Sprintf("removals within the last hour that were not safe: %s (mode %s); the last: %s", strings.Join(texts, ", "), mode, last.Note), do)
	}
	d.ok(name, "none within the last hour (mode %s)", mode)
}

const (
	// longHeld is from when on a person should look why a record is held.
	longHeld = 30 * time.Minute
	// heldShown is how many of the longest held are named.
	heldShown = 5
)

// held: the records that are held the longest.
func held(d *Diagnosis, f *Facts, now time.Time) {
	const name = "records held"
	if !d.knows(name, f.Records) {
		return
	}
	all := slices.DeleteFunc(list.List(f.Records.Get(), "", true).Items, func(i list.Item) bool { return i.Since == nil })
	if len(all) == 0 {
		d.ok(name, "none")
		return
	}
	var texts []string
	for _, i := range all[:min(len(all), heldShown)] {
		texts = append(texts, fmt.Sprintf("%s for %s (%s, ipa/%s)", i.Pod, inspect.Age(i.Since, now), i.Reason, i.Record))
	}
	found := fmt.Sprintf("%d; the longest: %s", len(all), strings.Join(texts, ", "))
	if now.Sub(all[0].Since.Time) >= longHeld {
		d.add(Warn, name, found, "kubectl holdfast explain says for each what would end it")
	}
	d.ok(name, "%s", found)
}

// unclassified: no row of the decision table fits. That is a bug, even if everything else works.
func unclassified(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "unclassified"
	if !d.knows(name, f.Records, f.Events) {
		return
	}
	found := ""
	for _, e := range f.Events.Get() {
		if e.Reason == string(v1alpha1.ReasonUnclassified) && found == "" {
			found = "event about " + e.About() + ": " + e.Note
		}
	}
	for i := range f.Records.Get() {
		r := &f.Records.Get()[i]
		if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ReleasedCondition); c != nil && c.Reason == string(v1alpha1.ReasonUnclassified) {
			found = "record " + r.Name + ": " + c.Message
			break
		}
	}
	if found != "" {
		d.add(Fail, name, found, "report it as a bug of Holdfast, with the pod, its record and the manager's log")
	}
	d.ok(name, "none")
}
