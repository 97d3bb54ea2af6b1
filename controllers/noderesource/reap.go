// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// reapRetry is how soon an object is looked at again that changed between the look and its deletion.
const reapRetry = time.Second

// newDeleteLimit is one token bucket for all policies.
func newDeleteLimit(o Options) flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(o.DeletesPerSecond, max(1, int(o.DeletesPerSecond)), o.Clock)
}

// reapOutcome is what became of one candidate.
type reapOutcome uint8

const (
	// reapForget: the object was deleted, is gone, or may not be deleted.
	reapForget reapOutcome = iota + 1
	// reapLater: the object is looked at again.
	reapLater
	// reapExhausted: no more deletions for now.
	reapExhausted
)

// reap deletes the candidates of a policy, each after a look of its own, as fast as the rate limit lets it.
func (s *sweeper) reap(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (reconcile.Result, error) {
	if len(p.candidates) == 0 || p.compiled.Spec().Stale != v1alpha1.StaleDelete {
		return reconcile.Result{}, nil
	}
	run, err := s.newRun(ctx, policy, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	next, exhausted, err := s.reapAll(ctx, run)
	if lacksPermission(err) {
		return s.reapForbidden(ctx, run, err)
	}
	if p.refused != "" && err == nil && !exhausted {
		p.refused = ""
		s.askFor(policy.Name, p)
	}
	return reconcile.Result{RequeueAfter: next}, err
}

// reapAll looks at every candidate, and says when to go on, and whether the rate limit is the reason. An object that cannot
// be deleted does not hide the next: each run begins behind the last object that took a token of the rate limit. A missing
// permission ends it, since it is missing for all.
func (s *sweeper) reapAll(ctx context.Context, run *sweepRun) (next time.Duration, exhausted bool, err error) {
	var failures []error
	before := len(run.state.candidates)
	for _, key := range run.state.sortedCandidates() {
		outcome, after, err := s.reapOne(ctx, run, key)
		switch {
		case lacksPermission(err) || ctx.Err() != nil:
			return 0, false, err
		case err != nil:
			failures = append(failures, err)
			continue
		case outcome == reapForget:
			delete(run.state.candidates, key)
			continue
		case outcome == reapExhausted:
			return after, true, errors.Join(failures...)
		}
		if next == 0 || after < next {
			next = after
		}
	}
	if len(run.state.candidates) < before {
		s.askFor(run.policy.Name, run.state)
	}
	return next, false, errors.Join(failures...)
}

// sortedCandidates begins behind the last one that was tried, and goes round.
func (p *sweptPolicy) sortedCandidates() []types.NamespacedName {
	all := slices.SortedFunc(maps.Keys(p.candidates), byNamespaceAndName)
	next, tried := slices.BinarySearchFunc(all, p.lastTried, byNamespaceAndName)
	if tried {
		next++
	}
	return append(slices.Clone(all[next:]), all[:next]...)
}

func byNamespaceAndName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// reapOne reads the object and its Node live, and deletes exactly that object in exactly that state if it is stale.
func (s *sweeper) reapOne(ctx context.Context, run *sweepRun, key types.NamespacedName) (reapOutcome, time.Duration, error) {
	candidate := missingKey{run.policy.Name, run.state.candidates[key]}
	if since, missing := s.missing.since(candidate); missing {
		if wait := s.goneDelayLeft(since); wait > 0 {
			return reapLater, wait, nil // nothing to read before
		}
	}
	u, err := s.get(ctx, run.resource, key)
	if apierrors.IsNotFound(err) {
		return reapForget, 0, nil
	}
	if err != nil {
		return 0, 0, couldNotRead(run, key, err)
	}
	object, err := run.state.compiled.Object(u)
	if err != nil {
		s.logUnknown(ctx, run.policy, u, err)
		return reapForget, 0, nil // the next sweep looks again
	}
	allowed, assessment := nodeidentity.Reap(run.state.compiled.Policy(), object, s.liveNode(ctx, object.NodeName))
	if assessment.Reason == v1alpha1.ReasonObservationFailed {
		return 0, 0, errors.New(assessment.Message)
	}
	if !allowed || !s.isProof(assessment.Reason) {
		return reapForget, 0, nil
	}
	if wait := s.stillToWait(run.policy.Name, &object, assessment.Reason); wait > 0 {
		return reapLater, wait, nil
	}
	if !s.deletes.TryAccept() {
		return reapExhausted, s.nextDelete(), nil
	}
	run.state.lastTried = key
	return s.delete(ctx, run, &observed{object: object, assessment: assessment, state: metrics.NodeObjectStale, apiVersion: u.GetAPIVersion()})
}

// isProof says whether a reason counts as proof in this installation.
func (s *sweeper) isProof(reason v1alpha1.Reason) bool {
	return reason != v1alpha1.ReasonNodeMissing || !s.options.HoldGoneNodes
}

// stillToWait is for how long the Node has to stay missing before its word is taken. Another Node of the name is proof.
func (s *sweeper) stillToWait(policy string, object *nodeidentity.Object, reason v1alpha1.Reason) time.Duration {
	if reason != v1alpha1.ReasonNodeMissing {
		return 0
	}
	return s.goneDelayLeft(s.missing.observe(missingKey{policy, object.UID}, object.NodeName, s.clock.Now()))
}

func (s *sweeper) goneDelayLeft(since time.Time) time.Duration {
	return s.options.NodeGoneDelay - s.clock.Since(since)
}

// nextDelete is how long the bucket needs for one more deletion.
func (s *sweeper) nextDelete() time.Duration {
	return time.Duration(float64(time.Second) / float64(s.deletes.QPS()))
}

// delete deletes the object that was looked at, and no other: not one that took its name, nor what was made of it since.
func (s *sweeper) delete(ctx context.Context, run *sweepRun, seen *observed) (reapOutcome, time.Duration, error) {
	object := &seen.object
	err := s.deleteExactly(ctx, run.resource, object)
	switch {
	case apierrors.IsNotFound(err):
		return reapForget, 0, nil
	case apierrors.IsConflict(err):
		return reapLater, reapRetry, nil
	case errors.Is(err, shadow.ErrWithheld):
		return reapLater, s.options.SweepInterval, nil
	case err != nil:
		return 0, 0, fmt.Errorf("deleting the stale %s %s: %w", run.resource.GroupResource(), objectName(object), err)
	}
	metrics.NodeObjectsDeleted.WithLabelValues(run.policy.Name).Inc()
	if len(object.Finalizers) > 0 {
		object.Deleting, seen.deletingSince = true, s.clock.Now()
		s.tellStale(ctx, run.policy, seen)
	} else {
		s.tellDeleted(ctx, run.policy, seen)
	}
	return reapForget, 0, nil
}

func (s *sweeper) deleteExactly(ctx context.Context, resource schema.GroupVersionResource, o *nodeidentity.Object) error {
	target := fmt.Sprintf("%s %s (uid %s)", resource.GroupResource(), objectName(o), o.UID)
	if err := s.options.Shadow.Withhold(ctx, shadow.DeleteNodeObject, target, "it speaks for a Node that is gone, and its policy asks for its deletion"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sweepReadTimeout)
	defer cancel()
	return s.objects.Resource(resource).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
}

// lacksPermission says whether the API server's authorizer refused a request, and not an admission plugin, which may have
// its own reasons for one object: the words are those of k8s.io/apiserver's responsewriters.
func lacksPermission(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

func couldNotRead(run *sweepRun, key types.NamespacedName, err error) error {
	return fmt.Errorf("reading %s %s: %w", run.resource.GroupResource(), key, err)
}
