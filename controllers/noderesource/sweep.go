// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// sweepRun is one reading of objects.
type sweepRun struct {
	policy   *v1alpha1.NodeResourcePolicy
	state    *sweptPolicy
	resource schema.GroupVersionResource
	nodes    nodeReader
	tally    *sweepTally
}

func (s *sweeper) newRun(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (*sweepRun, error) {
	resource, err := s.locate(ctx, p)
	if err != nil {
		return nil, err
	}
	return &sweepRun{policy: policy, state: p, resource: resource}, nil
}

// sweep looks at every object of the policy's resource.
func (s *sweeper) sweep(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (reconcile.Result, error) {
	began := time.Now() // the real clock, also in tests
	run, conflicts, err := s.lookAtAll(ctx, policy, p)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	p.took = time.Since(began)
	metrics.NodeSweepDuration.WithLabelValues(policy.Name).Observe(p.took.Seconds())
	if err != nil {
		return s.sweepFailed(ctx, policy, p, err)
	}
	s.missing.retain(policy.Name, run.tally.missing)
	p.candidates, p.troubled = run.tally.candidates, run.tally.troubled
	if len(p.candidates) == 0 {
		p.refused = ""
	} else {
		s.queue.Add(sweepRequest{Policy: policy.Name, Reap: true})
	}
	run.tally.report(policy.Name, len(conflicts))
	for i := range conflicts {
		s.reportConflict(ctx, policy, run.resource, &conflicts[i])
	}
	if err := s.reportSwept(ctx, policy, p, run.tally.status(conflicts)); err != nil {
		return reconcile.Result{}, err
	}
	return s.nextSweep(), nil
}

func (s *sweeper) lookAtAll(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (*sweepRun, []nodeidentity.Conflict, error) {
	run, err := s.newRun(ctx, policy, p)
	if err != nil {
		return nil, nil, err
	}
	if err := s.walk(ctx, run, metav1.ListOptions{}); err != nil {
		return nil, nil, err
	}
	conflicts, err := s.conflicts(ctx, run)
	return run, conflicts, err
}

// lookAtNode looks at the objects of one node, and requests a sweep where the status may change.
func (s *sweeper) lookAtNode(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy, node string) error {
	if !p.compiled.NamedByMetadata() || p.troubled.Has(node) {
		s.requestSweep(policy.Name, p)
		return nil
	}
	run, err := s.newRun(ctx, policy, p)
	if err == nil {
		err = s.walk(ctx, run, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()})
	}
	if err != nil {
		// The sweep meets the same error, and reports it in the policy's condition.
		log.FromContext(ctx).V(1).Info("Looking at the objects of a node failed; a sweep over all of them follows", "error", err.Error())
		s.requestSweep(policy.Name, p)
		return ctx.Err()
	}
	if !run.tally.inOrder() {
		s.requestSweep(policy.Name, p)
	}
	if len(run.tally.candidates) > 0 {
		maps.Copy(p.candidates, run.tally.candidates)
		s.queue.Add(sweepRequest{Policy: policy.Name, Reap: true})
	}
	return nil
}

// look judges one object, counts it, and reports it if it is stale or unowned.
func (s *sweeper) look(ctx context.Context, run *sweepRun, u *unstructured.Unstructured) {
	compiled := run.state.compiled
	object, err := compiled.Object(u)
	if err != nil {
		run.tally.add(&observed{object: object, state: metrics.NodeObjectUnknown})
		s.logUnknown(ctx, run.policy, u, err)
		return
	}
	seen := &observed{object: object, apiVersion: u.GetAPIVersion()}
	if at := u.GetDeletionTimestamp(); at != nil {
		seen.deletingSince = at.Time
	}
	evidence := s.cachedNode(ctx, object.NodeName)
	seen.assessment = nodeidentity.Assess(compiled.Policy(), object, evidence)
	if reason := seen.assessment.Reason; reason != v1alpha1.ReasonNodeUIDMatches && reason != v1alpha1.ReasonNamesNoNode {
		// Only a live read is evidence against an object.
		evidence = run.nodes.get(ctx, s, object.NodeName)
		seen.assessment = nodeidentity.Assess(compiled.Policy(), object, evidence)
	}
	seen.state = sweepState(compiled.Policy(), object, seen.assessment)
	if seen.state == metrics.NodeObjectUnknown {
		s.logUnknown(ctx, run.policy, u, errors.New(seen.assessment.Message))
	}
	s.noteHolding(ctx, run, seen, u)
	s.noteCandidate(run, seen, evidence)
	run.tally.add(seen)
	if seen.state == metrics.NodeObjectStale || seen.state == metrics.NodeObjectUnowned {
		s.reportStale(ctx, run.policy, seen)
	}
}

// noteHolding keeps the addresses of an object, unless its Node is gone. An object of which some cannot be read is unknown; the others count.
func (s *sweeper) noteHolding(ctx context.Context, run *sweepRun, seen *observed, u *unstructured.Unstructured) {
	if !holdsForLiveNode(seen.assessment) {
		return
	}
	prefixes, err := run.state.compiled.Prefixes(u)
	if err != nil {
		s.logUnknown(ctx, run.policy, u, err)
		if seen.state == metrics.NodeObjectOwned {
			seen.state = metrics.NodeObjectUnknown
		}
	}
	if len(prefixes) > 0 {
		run.tally.holdings = append(run.tally.holdings, nodeidentity.Holding{Object: holder(seen.object), Prefixes: prefixes})
	}
}

// noteCandidate keeps the name of an object that is to be deleted, and since when its Node is missing.
func (s *sweeper) noteCandidate(run *sweepRun, seen *observed, evidence nodeidentity.Evidence) {
	if run.state.compiled.Spec().Stale != v1alpha1.StaleDelete {
		return
	}
	allowed, assessment := nodeidentity.Reap(run.state.compiled.Policy(), seen.object, evidence)
	if !allowed {
		return
	}
	if assessment.Reason == v1alpha1.ReasonNodeMissing {
		s.missing.observe(missingKey{run.policy.Name, seen.object.UID}, seen.object.NodeName, s.clock.Now())
		run.tally.missing.Insert(seen.object.UID)
	}
	run.tally.candidates[types.NamespacedName{Namespace: seen.object.Namespace, Name: seen.object.Name}] = seen.object.UID
}

// conflicts are the pairs of objects that hold one address in the sweep and again in a second reading: a prefix may move from one object to
// another between two pages. The first reading ended before the second began, so such a pair held it at one time.
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

// heldTwice are the holdings of the second reading, each with the prefixes that the same UID held in the first one too.
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
	nodes := nodeReader{}
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

// holding is what an object holds now: nothing if the object or its Node does not exist.
func (s *sweeper) holding(ctx context.Context, run *sweepRun, nodes nodeReader, key types.NamespacedName) ([]nodeidentity.Holding, error) {
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
	if !holdsForLiveNode(nodeidentity.Assess(compiled.Policy(), object, nodes.get(ctx, s, object.NodeName))) {
		return nil, nil
	}
	prefixes, err := compiled.Prefixes(u)
	if err != nil {
		s.logUnknown(ctx, run.policy, u, err)
	}
	return []nodeidentity.Holding{{Object: holder(object), Prefixes: prefixes}}, nil
}
