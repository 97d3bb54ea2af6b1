// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"maps"
	"time"

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
	nodes    *nodeReader
	tally    *sweepTally
}

func (s *sweeper) newRun(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (*sweepRun, error) {
	resource, err := s.locate(ctx, p)
	if err != nil {
		return nil, err
	}
	return &sweepRun{policy: policy, state: p, resource: resource}, nil
}

// restart forgets what was read.
func (s *sweeper) restart(run *sweepRun) func() {
	return func() { run.nodes, run.tally = s.newNodeReader(), newSweepTally() }
}

// sweep looks at every object of the policy's resource.
func (s *sweeper) sweep(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (reconcile.Result, error) {
	began := time.Now() // a duration of the real world, whatever the clock of the delays
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
		s.tellConflict(ctx, policy, run.resource, &conflicts[i])
	}
	if err := s.saySwept(ctx, policy, p, run.tally.status(conflicts)); err != nil {
		return reconcile.Result{}, err
	}
	return s.nextSweep(), nil
}

func (s *sweeper) lookAtAll(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (*sweepRun, []nodeidentity.Conflict, error) {
	run, err := s.newRun(ctx, policy, p)
	if err != nil {
		return nil, nil, err
	}
	err = s.walk(ctx, run.resource, metav1.ListOptions{}, s.restart(run), func(u *unstructured.Unstructured) error {
		s.look(ctx, run, u)
		return ctx.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	conflicts, err := s.conflicts(ctx, run)
	return run, conflicts, err
}

// lookAtNode looks at the objects of one node, and asks for a sweep where that does not suffice to keep the status right.
func (s *sweeper) lookAtNode(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy, node string) error {
	if !p.compiled.NamedByMetadata() || p.troubled.Has(node) {
		s.askFor(policy.Name, p)
		return nil
	}
	run, err := s.newRun(ctx, policy, p)
	if err == nil {
		options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()}
		err = s.walk(ctx, run.resource, options, s.restart(run), func(u *unstructured.Unstructured) error {
			s.look(ctx, run, u)
			return ctx.Err()
		})
	}
	if err != nil {
		// The sweep meets the same error, and says so in the policy's condition.
		log.FromContext(ctx).V(1).Info("Looking at the objects of a node failed; a sweep over all of them follows", "error", err.Error())
		s.askFor(policy.Name, p)
		return ctx.Err()
	}
	if !run.tally.inOrder() {
		s.askFor(policy.Name, p)
	}
	if len(run.tally.candidates) > 0 {
		maps.Copy(p.candidates, run.tally.candidates)
		s.queue.Add(sweepRequest{Policy: policy.Name, Reap: true})
	}
	return nil
}

// look judges one object, counts it, and tells of it if it is not in order.
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
		// Only what the API server says now may speak against an object.
		evidence = run.nodes.get(ctx, object.NodeName)
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
		s.tellStale(ctx, run.policy, seen)
	}
}

// noteHolding keeps what the object holds, unless its Node is gone. An object whose addresses cannot all be read is not in
// order; those that can be read count.
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

// noteCandidate keeps the name of an object that the policy wants deleted, and since when its Node is missing.
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
