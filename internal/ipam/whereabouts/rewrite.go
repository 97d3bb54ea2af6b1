// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// rewriteStep changes the sandbox ID of an entry and nothing else. Whereabouts' own ADD does the same to an entry that has the
// podref and the interface already (AssignIP, pkg/allocate/allocate.go).
var rewriteStep = step{name: "rewrite", operations: rewriteOperations, pending: rewritePending, after: rewritten}

func rewriteOperations(i *item, versioned bool) []operation {
	return append(testEntry(i, i.PodRef, versioned), operation{"replace", i.path() + "/id", i.successor})
}

func rewritePending(i *item, found *wb.IPAllocation) bool {
	switch {
	case found == nil:
		i.err = fmt.Errorf("%w: %s in pool %s has no entry any more, expected that of sandbox %q; observe it again", ipam.ErrChanged, i.IP, i.Pool, i.SandboxID)
	case *found == wb.IPAllocation{ContainerID: i.successor, PodRef: i.PodRef, IfName: i.Interface}:
		i.state = rewritten
	case i.is(found, i.PodRef):
		return true
	default:
		i.err = i.changed(found, i.PodRef)
	}
	return false
}

// Rewrite gives entries to the sandboxes that came in the place of theirs. The reservation of the address names no sandbox and
// stays as it is.
func (b *Backend) Rewrite(ctx context.Context, requests []ipam.Rewrite) []ipam.Rewritten {
	items := inPools(requests, newRewriting, func(pool string, items []*item) { b.rewriteIn(ctx, pool, items) })
	results := make([]ipam.Rewritten, len(requests))
	for n := range requests {
		results[n] = ipam.Rewritten{Rewrite: requests[n], Err: items[n].err}
	}
	return results
}

// rewriteIn writes one pool. It is never in a batch of releases: the caller that leads one makes the steps of a release for all.
func (b *Backend) rewriteIn(ctx context.Context, pool string, items []*item) {
	p, items := b.locate(ctx, pool, items)
	if p == nil {
		return
	}
	for _, i := range in(gone, items) {
		i.err = fmt.Errorf("%w: IPPool %s is deleted; observe it again", ipam.ErrChanged, pool)
	}
	p.perform(ctx, rewriteStep, in(held, items))
}

// newRewriting refuses requests that could not be compared with what is in a pool, or would leave an entry without a sandbox or a pod.
func newRewriting(request ipam.Rewrite) *item {
	i := &item{Request: ipam.Request{Key: request.Key}, successor: request.Successor}
	owner, _, err := ipam.ParseReference(request.PodRef)
	switch {
	case request.Backend != Name:
		i.err = fmt.Errorf("rewriting %s: it belongs to the backend %q, not to %q", request.Key, request.Backend, Name)
	case !request.IP.IsValid():
		i.err = fmt.Errorf("rewriting %s: it names no address", request.Key)
	case err != nil || owner == nil:
		i.err = fmt.Errorf("rewriting %s: its podref is %q, expected that of a pod, \"namespace/name\"", request.Key, request.PodRef)
	case request.Successor == request.SandboxID:
		i.err = fmt.Errorf("rewriting %s: the sandbox in its place is itself", request.Key)
	default:
		if err := checkRecordable(request.Successor, owner); err != nil {
			i.err = fmt.Errorf("rewriting %s for sandbox %q: %w", request.Key, request.Successor, err)
		}
	}
	return i
}
