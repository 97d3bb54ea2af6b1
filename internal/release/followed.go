// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// followedFirst turns the release of a sandbox that later ones of the pod followed into a Drop, and holds the release of those until each that
// they followed is dropped: the pool has one entry for all of them (docs/decisions/0135).
func followedFirst(sandboxes []Sandbox, judged []Decision) []Decision {
	held := slices.ContainsFunc(sandboxes, func(s Sandbox) bool { return s.Followed })
	var in []Decision
	for i, d := range judged {
		switch {
		case sandboxes[i].Followed:
			in = append(in, dropFollowed(d))
		case !held || (d.Action != Release && d.Action != Disown):
			in = append(in, d)
		}
	}
	return in
}

func dropFollowed(d Decision) Decision {
	if d.Action == Release {
		d.Action = Drop
	}
	return d
}

// isGone says whether a report shows that the sandbox itself is gone. That another sandbox of the pod is not is what a followed one is about.
func (s *Sandbox) isGone(report Response) bool {
	return report.gone() || (s.Followed && report.Reason == string(v1alpha1.ReasonSandboxReplaced))
}

// neverListed: the sandbox is gone from a node of which no list ever showed it.
func (r Response) neverListed() bool {
	return r.Reason == string(v1alpha1.ReasonSandboxNeverListed) || (r.Reason == string(v1alpha1.ReasonSandboxReplaced) && r.PodUID == "")
}

// replacedByItsKubelet: without agents, a kubelet's next sandbox shows that it stopped the one before, on the same machine.
func replacedByItsKubelet(o Observation, s *Sandbox) bool {
	if o.Evidence != EvidenceKubelet || !s.Followed || s.Conflict || !s.Machine.IsKnown() || !o.Node.IsKnown() {
		return false
	}
	relation := Compare(s.Machine.Get(), o.Node.Get().Machine)
	return relation != Replaced && relation != Resembling
}

func dropReplaced(row Row, s *Sandbox) Decision {
	return Decision{Row: row, Action: Drop, Reason: v1alpha1.ReasonSandboxReplaced, Sandboxes: []string{s.ID},
		Message: "sandbox " + s.ID + ": the kubelet made another sandbox of the pod in its place, which has its address"}
}
