// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// followedFirst turns the release of a followed sandbox into a Drop, and delays that of each later one until all that share an address with it are
// proven gone: the pool has one entry for all of them (docs/decisions/0135). An earlier one without entries has nothing to wait for.
func followedFirst(sandboxes []Sandbox, judged []Decision) []Decision {
	isProven := func(j int) bool { return judged[j].Action == Release || judged[j].Action == Drop }
	var in []Decision
	for i, d := range judged {
		s := &sandboxes[i]
		switch {
		case s.Followed:
			in = append(in, dropFollowed(d))
		case d.Action == Release && s.sharesWith(sandboxes, func(j int) bool { return !isProven(j) }):
			if s.Superseded {
				in = append(in, dropFollowed(d))
			}
		case d.Action != Disown || !s.sharesWith(sandboxes, func(j int) bool { return sandboxes[j].Followed }):
			in = append(in, d)
		}
	}
	return in
}

// sharesWith says whether the sandbox shares an address with another one of those of the pod.
func (s *Sandbox) sharesWith(all []Sandbox, with func(j int) bool) bool {
	for j := range all {
		if with(j) && slices.Contains(s.Shares, all[j].ID) {
			return true
		}
	}
	return false
}

func dropFollowed(d Decision) Decision {
	if d.Action == Release {
		d.Action = Drop
	}
	return d
}

// isGone says whether a report shows that the sandbox itself is gone. For a followed one, another living sandbox of the pod does not matter.
func (s *Sandbox) isGone(report Response) bool {
	return report.gone() || (s.Followed && report.Reason == string(v1alpha1.ReasonSandboxReplaced))
}

// neverListed says whether the sandbox counts as gone because no list of the node ever showed it.
func (r Response) neverListed() bool {
	return r.Reason == string(v1alpha1.ReasonSandboxNeverListed) || (r.Reason == string(v1alpha1.ReasonSandboxReplaced) && r.PodUID == "")
}

// replacedByItsKubelet says whether the kubelet created the next sandbox on the same machine. Without agents that is the evidence that it stopped the
// one before. A sandbox of another machine may be the next one, also where this machine has registered again since.
func replacedByItsKubelet(o Observation, s *Sandbox) bool {
	if o.Evidence != EvidenceKubelet || !s.Followed || s.Conflict || !s.Machine.IsKnown() || !o.Node.IsKnown() {
		return false
	}
	isAnother := func(machine Machine) bool {
		relation := Compare(s.Machine.Get(), machine)
		return relation == Replaced || relation == Resembling
	}
	return !isAnother(o.Node.Get().Machine) && !slices.ContainsFunc(o.Sandboxes.Get(), func(other Sandbox) bool {
		return other.Unrecorded || !other.UnchangedSince.Before(s.UnchangedSince) && other.Machine.IsKnown() && isAnother(other.Machine.Get())
	})
}

func dropReplaced(row Row, s *Sandbox) Decision {
	return Decision{Row: row, Action: Drop, Reason: v1alpha1.ReasonSandboxReplaced, Sandboxes: []string{s.ID},
		Message: "sandbox " + s.ID + ": the kubelet made another sandbox of the pod in its place"}
}
