// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func rights(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "rights of the accounts"
	if f.RightsUnread != "" {
		d.unread(name, f.RightsUnread)
		return
	}
	var missing []string
	for _, r := range f.Rights {
		if !r.Allowed {
			text := fmt.Sprintf("%s may not %s %s", r.Account, r.Verb, r.Resource)
			if r.Namespace != "" {
				text += " in namespace " + r.Namespace
			}
			missing = append(missing, text)
		}
	}
	if len(missing) > 0 {
		d.add(Fail, name, strings.Join(missing, "; "), "apply the installation's roles and bindings again (config/rbac, config/agent)")
		return
	}
	d.ok(name, "%d rights were asked for, and are given", len(f.Rights))
}

// responseWithin is for how long a query may stand before an agent counts as not responding.
const responseWithin = time.Minute

// agents: one on every node where their reports are needed, and none that does not respond.
func agents(d *Diagnosis, f *Facts, now time.Time) {
	const name = "agents"
	needed := f.Configuration.IsKnown() && f.Configuration.Get().Evidence == configv1alpha1.EvidenceAgent
	level := Warn
	if needed {
		level = Fail
	}
	switch {
	case f.Agents.IsAbsent() && !needed:
		d.ok(name, "not installed, and not needed (evidence: Kubelet)")
		return
	case f.Agents.IsAbsent():
		d.add(Fail, name, "there is no DaemonSet holdfast-agent/holdfast-agent, and the configuration relies on their reports (evidence: Agent): everything is held", "install the agents (config/agent)")
		return
	case !f.Agents.IsKnown():
		d.unread(name, f.Agents.Why())
		return
	case !f.Nodes.IsKnown():
		d.unread(name, f.Nodes.Why())
		return
	case !f.GuardedNodes.IsKnown():
		d.unread(name, f.GuardedNodes.Why())
		return
	}
	late := withoutResponse(f, now)
	switch {
	case withoutAgents(d, f, name, level):
	case len(late) > 0:
		d.add(level, name, "no response to a query for more than "+responseWithin.String()+": "+strings.Join(late, "; "), "look at the agent of that node; the condition Responding of its GuardedNode says why (kubectl get gn -o wide)")
	default:
		d.ok(name, "one is Ready on each of %d nodes, and no query is without a response", len(f.Nodes.Get()))
	}
}

// withoutAgents tells of the nodes without an agent that is Ready, and apart of those that are not Ready themselves, where none can be.
func withoutAgents(d *Diagnosis, f *Facts, name string, level Level) bool {
	var without, down []string
	for _, node := range f.Nodes.Get() {
		system := node.Labels[corev1.LabelOSStable]
		has := slices.ContainsFunc(f.AgentPods, func(p corev1.Pod) bool { return p.Spec.NodeName == node.Name && podReady(&p) })
		switch {
		case has || (system != "" && system != "linux"):
		case notReady(&node):
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

func notReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

func withoutResponse(f *Facts, now time.Time) []string {
	var all []string
	for _, object := range f.GuardedNodes.Get() {
		for _, q := range object.Spec.Queries {
			queries := facts.QueriesIn(release.Known([]v1alpha1.GuardedNode{object}), q.Record)
			if _, responded := queries.About(q.SandboxID, types.UID(object.Name)).Responded(); responded || now.Sub(q.Time.Time) <= responseWithin {
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

const (
	// longHeld is from when on somebody should look why a record is held.
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
	type one struct {
		record *v1alpha1.IPAllocation
		reason string
		since  time.Time
	}
	var all []one
	for i := range f.Records.Get() {
		r := &f.Records.Get()[i]
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ReleasedCondition)
		if r.Status.State.IsInUse() || c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		all = append(all, one{r, c.Reason, c.LastTransitionTime.Time})
	}
	if len(all) == 0 {
		d.ok(name, "none")
		return
	}
	slices.SortFunc(all, func(x, y one) int {
		return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.record.Name, y.record.Name))
	})
	var texts []string
	for _, o := range all[:min(len(all), heldShown)] {
		texts = append(texts, fmt.Sprintf("%s/%s for %s (%s, ipa/%s)", o.record.Spec.PodNamespace, o.record.Spec.PodName, duration.HumanDuration(now.Sub(o.since)), o.reason, o.record.Name))
	}
	found := fmt.Sprintf("%d; the longest: %s", len(all), strings.Join(texts, ", "))
	if now.Sub(all[0].since) >= longHeld {
		d.add(Warn, name, found, "kubectl holdfast explain says for each what would end it")
		return
	}
	d.ok(name, "%s", found)
}

// unclassified: no row of the decision table fits. That is a bug, whatever else is well.
func unclassified(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "unclassified"
	const do = "report it as a bug of Holdfast, with the pod, its record and the manager's log"
	if !d.knows(name, f.Records) || !d.knows(name, f.Events) {
		return
	}
	for i := range f.Records.Get() {
		r := &f.Records.Get()[i]
		if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ReleasedCondition); c != nil && c.Reason == string(v1alpha1.ReasonUnclassified) {
			d.add(Fail, name, "record "+r.Name+": "+c.Message, do)
			return
		}
	}
	for _, e := range f.Events.Get() {
		if e.Reason == string(v1alpha1.ReasonUnclassified) {
			d.add(Fail, name, "event about "+e.About()+": "+e.Note, do)
			return
		}
	}
	d.ok(name, "none")
}

// policies: each NodeResourcePolicy works.
func policies(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "node resource policies"
	if !d.knows(name, f.Policies) {
		return
	}
	broken := false
	var waiting []string
	for i := range f.Policies.Get() {
		p := &f.Policies.Get()[i]
		if waitsForResource(p) {
			waiting = append(waiting, p.Name)
		}
		for _, kind := range []string{v1alpha1.PolicyAccepted, v1alpha1.PolicyEnforced, v1alpha1.PolicySwept} {
			if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue && c.Reason != string(v1alpha1.ReasonShadowMode) {
				broken = true
				d.add(Warn, name, fmt.Sprintf("%s is not %s: %s, %s", p.Name, kind, c.Reason, c.Message), "see the policy: kubectl describe nrp "+p.Name)
				break
			}
		}
	}
	switch {
	case len(waiting) > 0:
		d.ok(name, "%d of %d wait for a resource that this cluster does not have, and begin by themselves when it comes: %s",
			len(waiting), len(f.Policies.Get()), strings.Join(waiting, ", "))
	case !broken:
		d.ok(name, "%d, and each works", len(f.Policies.Get()))
	}
}

// waitsForResource: the API server does not serve what the policy guards.
func waitsForResource(p *v1alpha1.NodeResourcePolicy) bool {
	accepted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PolicyAccepted)
	return accepted != nil && accepted.Status == metav1.ConditionTrue && accepted.Reason == string(v1alpha1.ReasonResourceNotServed)
}
