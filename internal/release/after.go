// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Aim is the action that the decision leads to, also if the facts have to be read again first or mode Shadow only reports it.
func (d Decision) Aim() Action {
	switch {
	case d.Withheld != nil:
		return d.Withheld.Action
	case d.Action == Reread:
		return d.Intended
	}
	return d.Action
}

const stayTaken = "apart from addresses of sandboxes that are proven gone, which stay in their pools while the mode is Shadow: "

// withheld is the decision on a pod whose addresses mode Guard would release, and mode Shadow leaves in their pools.
func (d Decision) withheld(o Observation, now time.Time) Decision {
	rest := decideOwned(o.without(&d), now)
	rest.Withheld, rest.Readdress = &d, rest.Readdress || d.Readdress
	rest.Message = stayTaken + rest.Message
	return rest
}

// then is the decision once the queries of a Confirm are made.
func (d Decision) then(o Observation, now time.Time) *Decision {
	then := decideOwned(o.without(d.Withheld).queried(d, now), now)
	if d.Withheld != nil {
		then.Message = stayTaken + then.Message
	}
	return &then
}

// without is the observation without the entries of a decision's sandboxes.
func (o Observation) without(d *Decision) Observation {
	if d == nil {
		return o
	}
	o.Unowned = slices.DeleteFunc(slices.Clone(o.Unowned), func(id string) bool { return slices.Contains(d.Sandboxes, id) })
	if !o.Sandboxes.IsKnown() {
		return o
	}
	rest := slices.DeleteFunc(slices.Clone(o.Sandboxes.Get()), func(s Sandbox) bool { return slices.Contains(d.Sandboxes, s.ID) })
	o.Sandboxes = Known(rest)
	if len(rest) == 0 {
		o.Sandboxes = Absent[[]Sandbox]()
	}
	return o
}

// queried is the observation after the queries of a Confirm are made.
func (o Observation) queried(d Decision, now time.Time) Observation {
	node := o.Node.Get()
	query := func(q Exchange, id string) Fact[Query] {
		if !slices.Contains(d.Sandboxes, id) {
			return q.Query
		}
		return Known(Query{SandboxID: id, NodeUID: node.NodeUID, BootID: node.BootID, Epoch: max(q.Query.Get().Epoch, q.Response.Get().Epoch) + 1, Time: now,
			OutOfService: d.OutOfService, Rewrite: d.Row == RowPodInUse})
	}
	o.Any.Query = query(o.Any, v1alpha1.AnySandbox)
	if !o.Sandboxes.IsKnown() {
		return o
	}
	sandboxes := slices.Clone(o.Sandboxes.Get())
	for i := range sandboxes {
		s := &sandboxes[i]
		s.Query = query(Exchange{Query: s.Query, Response: s.Response}, s.ID)
	}
	o.Sandboxes = Known(sandboxes)
	return o
}
