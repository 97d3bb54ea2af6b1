// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// conflicts are the pairs of objects of which a sweep found that they hold one address, and of which a second reading finds
// the same: a prefix may move from one object to another between two pages. What the first reading saw ended before the
// second began, so that a pair which holds an address in both held it at one time.
func (s *sweeper) conflicts(ctx context.Context, run *sweepRun) ([]nodeidentity.Conflict, error) {
	first := run.tally.holdings
	run.tally.holdings = nil
	found := nodeidentity.Conflicts(first)
	if len(found) == 0 {
		return nil, nil
	}
	second, err := s.holdAgain(ctx, run, found)
	if err != nil {
		return nil, err
	}
	return nodeidentity.Conflicts(heldTwice(first, second)), nil
}

// heldTwice are the holdings of the second reading, each with the prefixes that the same object, by UID, held in the first
// one too.
func heldTwice(first, second []nodeidentity.Holding) []nodeidentity.Holding {
	held := make(map[types.UID][]netip.Prefix, len(first))
	for i := range first {
		held[first[i].Object.UID] = first[i].Prefixes
	}
	for i := range second {
		before := held[second[i].Object.UID]
		second[i].Prefixes = slices.DeleteFunc(second[i].Prefixes, func(p netip.Prefix) bool { return !slices.Contains(before, p) })
	}
	return second
}

// holdAgain reads every object of the conflicts, and their Nodes, once more.
func (s *sweeper) holdAgain(ctx context.Context, run *sweepRun, found []nodeidentity.Conflict) ([]nodeidentity.Holding, error) {
	nodes := s.newNodeReader()
	read := map[types.NamespacedName]struct{}{}
	var again []nodeidentity.Holding
	for i := range found {
		for _, o := range []*nodeidentity.Object{&found[i].A, &found[i].B} {
			key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
			if _, done := read[key]; done {
				continue
			}
			read[key] = struct{}{}
			holding, err := s.holding(ctx, run, nodes, key)
			if err != nil {
				return nil, err
			}
			again = append(again, holding...)
		}
	}
	return again, nil
}

// holding is what an object holds now: nothing if it is gone, or its Node is.
func (s *sweeper) holding(ctx context.Context, run *sweepRun, nodes *nodeReader, key types.NamespacedName) ([]nodeidentity.Holding, error) {
	u, err := s.get(ctx, run.resource, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, couldNotRead(run, key, err)
	}
	compiled := run.state.compiled
	object, err := compiled.Object(u)
	if err != nil {
		s.logUnknown(ctx, run.policy, u, err)
		return nil, nil
	}
	if !holdsForLiveNode(nodeidentity.Assess(compiled.Policy(), object, nodes.get(ctx, object.NodeName))) {
		return nil, nil
	}
	prefixes, err := compiled.Prefixes(u)
	if err != nil {
		s.logUnknown(ctx, run.policy, u, err)
	}
	return []nodeidentity.Holding{{Object: holder(object), Prefixes: prefixes}}, nil
}
