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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// reapRetry is how soon an object is looked at again that changed between the look and its deletion.
const reapRetry = time.Second

// errRateLimited ends a run of the reaper.
var errRateLimited = errors.New("no deletion is allowed for now")

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
		s.requestSweep(policy.Name, p)
	}
	return reconcile.Result{RequeueAfter: next}, err
}

// reapAll looks at every candidate, and reports when to go on, and whether the rate limit is the reason. Each run begins behind the last object
// that took a token, so that one which cannot be deleted hides no other. A missing permission ends it, since it is missing for all.
func (s *sweeper) reapAll(ctx context.Context, run *sweepRun) (next time.Duration, exhausted bool, err error) {
	var failures []error
	before := len(run.state.candidates)
	for _, key := range run.state.sortedCandidates() {
		again, err := s.reapOne(ctx, run, key)
		switch {
		case errors.Is(err, errRateLimited):
			return time.Duration(float64(time.Second) / float64(s.deletes.QPS())), true, errors.Join(failures...)
		case lacksPermission(err) || ctx.Err() != nil:
			return 0, false, err
		case err != nil:
			failures = append(failures, err)
		case again == 0:
			delete(run.state.candidates, key)
		case next == 0 || again < next:
			next = again
		}
	}
	if len(run.state.candidates) < before {
		s.requestSweep(run.policy.Name, run.state)
	}
	return next, false, errors.Join(failures...)
}

// sortedCandidates begins behind the last one that was tried, and wraps around.
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

// reapOne reads the object and its Node live, and deletes exactly that object in exactly that state if it is stale. It returns when to look at
// the object again; zero if it was deleted, does not exist or may not be deleted.
func (s *sweeper) reapOne(ctx context.Context, run *sweepRun, key types.NamespacedName) (again time.Duration, err error) {
	candidate := missingKey{run.policy.Name, run.state.candidates[key]}
	if since, missing := s.missing.since(candidate); missing {
		if wait := s.goneDelayLeft(since); wait > 0 {
			return wait, nil // nothing to read before
		}
	}
	u, err := s.get(ctx, run.resource, key)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, couldNotRead(run, key, err)
	}
	object, err := run.state.compiled.Object(u)
	if err != nil {
		s.logUnknown(ctx, run.policy, u, err)
		return 0, nil // the next sweep looks again
	}
	assessment, allowed, err := s.mayReap(ctx, run.state.compiled.Policy(), &object)
	if !allowed || err != nil {
		return 0, err
	}
	if assessment.Reason == v1alpha1.ReasonNodeMissing { // another Node of the name is proof at once
		since := s.missing.observe(missingKey{run.policy.Name, object.UID}, object.NodeName, s.clock.Now())
		if wait := s.goneDelayLeft(since); wait > 0 {
			return wait, nil
		}
	}
	if !s.deletes.TryAccept() {
		return 0, errRateLimited
	}
	run.state.lastTried = key
	return s.delete(ctx, run, &observed{object: object, assessment: assessment, state: metrics.NodeObjectStale, apiVersion: u.GetAPIVersion()})
}

// mayReap judges an object by live reads.
func (s *sweeper) mayReap(ctx context.Context, p nodeidentity.Policy, o *nodeidentity.Object) (nodeidentity.Assessment, bool, error) {
	allowed, assessment := nodeidentity.Reap(p, *o, s.liveNode(ctx, o.NodeName))
	if assessment.Reason == v1alpha1.ReasonObservationFailed {
		return assessment, false, errors.New(assessment.Message)
	}
	if !allowed || !s.isProof(assessment.Reason) {
		return assessment, false, nil
	}
	lives, err := s.isOfLiveNode(ctx, p, o)
	return assessment, !lives && err == nil, err
}

// isOfLiveNode reports whether an annotation of the object, which has no name of a Node beside it, has the UID of a live Node of any name: the policy may
// take the Node's name from the wrong place, or the object be moved to another Node in two writes.
func (s *sweeper) isOfLiveNode(ctx context.Context, p nodeidentity.Policy, o *nodeidentity.Object) (bool, error) {
	if p.Annotation == "" {
		return false, nil
	}
	for page, err := range pages.Metadata(ctx, s.live, corev1.SchemeGroupVersion.WithKind("Node")) {
		if err != nil {
			return false, fmt.Errorf("listing the Nodes, of which %s may carry a UID: %w", objectName(o), err)
		}
		for i := range page.Items {
			if slices.ContainsFunc(o.References, func(r nodeidentity.Reference) bool { return r.UID == page.Items[i].UID }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isProof reports whether a reason counts as proof in this installation.
func (s *sweeper) isProof(reason v1alpha1.Reason) bool {
	return reason != v1alpha1.ReasonNodeMissing || !s.options.HoldGoneNodes
}

func (s *sweeper) goneDelayLeft(since time.Time) time.Duration {
	return s.options.NodeGoneDelay - s.clock.Since(since)
}

// delete deletes the very object that was read, unless it was changed since. It returns when to look at it again.
func (s *sweeper) delete(ctx context.Context, run *sweepRun, seen *observed) (again time.Duration, err error) {
	object := &seen.object
	err = s.deleteExactly(ctx, run.resource, object)
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsConflict(err):
		return reapRetry, nil
	case errors.Is(err, shadow.ErrWithheld):
		return s.options.SweepInterval, nil
	case err != nil:
		return 0, fmt.Errorf("deleting the stale %s %s: %w", run.resource.GroupResource(), objectName(object), err)
	}
	metrics.NodeObjectsDeleted.WithLabelValues(run.policy.Name).Inc()
	if len(object.Finalizers) > 0 {
		object.Deleting, seen.deletingSince = true, s.clock.Now()
		s.reportStale(ctx, run.policy, seen)
	} else {
		s.reportDeleted(ctx, run.policy, seen)
	}
	return 0, nil
}

func (s *sweeper) deleteExactly(ctx context.Context, resource schema.GroupVersionResource, o *nodeidentity.Object) error {
	target := fmt.Sprintf("%s %s (uid %s)", resource.GroupResource(), objectName(o), o.UID)
	if err := s.options.Shadow.Withhold(ctx, shadow.DeleteNodeObject, target, "it speaks for a Node that is gone, and its policy wants it deleted"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sweepReadTimeout)
	defer cancel()
	return s.objects.Resource(resource).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
}

// lacksPermission reports whether the API server's authorizer refused a request, and not an admission plugin, which may refuse one object: the
// texts are those of k8s.io/apiserver's responsewriters.
func lacksPermission(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

func couldNotRead(run *sweepRun, key types.NamespacedName, err error) error {
	return fmt.Errorf("reading %s %s: %w", run.resource.GroupResource(), key, err)
}

// missingKey is an object whose Node does not exist, as one policy sees it.
type missingKey struct {
	policy string
	object types.UID
}

type missingSince struct {
	node  string
	since time.Time
}

// missingNodes remembers since when the Node of an object has been missing without a break. It is in memory only: a restart delays a deletion.
type missingNodes struct {
	mu   sync.Mutex
	seen map[missingKey]missingSince
}

func newMissingNodes() *missingNodes { return &missingNodes{seen: map[missingKey]missingSince{}} }

// observe notes that the object's Node is missing now, and returns since when it has been.
func (m *missingNodes) observe(key missingKey, node string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.seen[key]
	if !known || before.node != node {
		before = missingSince{node: node, since: now}
		m.seen[key] = before
	}
	return before.since
}

// since is since when the object's Node has been missing.
func (m *missingNodes) since(key missingKey) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen, known := m.seen[key]
	return seen.since, known
}

// found ends the wait of every object of a node, because there was a Node of the name.
func (m *missingNodes) found(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(_ missingKey, s missingSince) bool { return s.node == node })
}

// retain forgets every object of the policy but these.
func (m *missingNodes) retain(policy string, objects sets.Set[types.UID]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(key missingKey, _ missingSince) bool { return key.policy == policy && !objects.Has(key.object) })
}
