// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// maxPerPatch bounds the entries of one patch: the API server takes 10,000 operations (maxJSONPatchOperations), and an
// entry needs four.
const maxPerPatch = 1000

// poolWriter writes one pool for one batch.
type poolWriter struct {
	reader    client.Reader
	writer    client.Client
	key       client.ObjectKey
	rangeText string
	// missing: the API server reported that the pool does not exist.
	missing bool
}

// locate finds the offset of each item. An offset from 2^63 is never written, nor is a pool whose range is unreadable. In
// a pool that is missing every entry counts as removed.
func (p *poolWriter) locate(items []*item) []*item {
	if p.missing {
		for _, i := range items {
			i.state = gone
		}
		return items
	}
	network, err := parseRange(p.rangeText)
	if err != nil {
		fail(items, fmt.Errorf("releasing from IPPool %s: %w; nothing in it is written until it is corrected", p.key, err))
		return nil
	}
	for _, i := range items {
		offset, err := offsetOf(network, i.IP)
		if err != nil {
			i.err = fmt.Errorf("releasing %s: %w", i.Key, err)
			continue
		}
		i.offset = formatOffset(offset)
	}
	return items
}

// perform makes one step for all items. The patch is the live read: only when the API server refuses it is the pool read,
// to distinguish the entries, and the rest written together again, then one by one. So an entry that cannot be written
// stops no other.
func (p *poolWriter) perform(ctx context.Context, s step, items []*item) {
	for batch := range slices.Chunk(items, maxPerPatch) {
		err := p.patch(ctx, s, batch, "")
		if !isRefusal(err) {
			settle(s, batch, err)
			continue
		}
		rest, version, err := p.readAndJudge(ctx, s, batch)
		if err != nil {
			fail(batch, err)
			continue
		}
		if len(rest) == 0 {
			continue
		}
		if err = p.patch(ctx, s, rest, version); !isRefusal(err) || len(rest) == 1 {
			settle(s, rest, err)
			continue
		}
		for _, i := range rest {
			settle(s, []*item{i}, p.patch(ctx, s, []*item{i}, ""))
		}
	}
}

func settle(s step, items []*item, err error) {
	for _, i := range items {
		if err != nil {
			i.err = fmt.Errorf("could not %s the entry %s: %w", s.name, i.Key, err)
			continue
		}
		i.state = s.after
	}
}

// isRefusal reports whether a response may be about some of the entries only: a test that failed, a deleted pool, an
// admission that forbids one of them. Any other response shows nothing about the pool.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// readAndJudge reads the pool and gives the items for which the step is still to be made. The version is that of the
// pool if testEntry needs it for one of them.
func (p *poolWriter) readAndJudge(ctx context.Context, s step, items []*item) (rest []*item, version string, err error) {
	pool := &wb.IPPool{}
	if err := p.reader.Get(ctx, p.key, pool); served.IsAbsent(err) {
		p.missing = true
	} else if err != nil {
		return nil, "", fmt.Errorf("reading IPPool %s: %w", p.key, err)
	}
	if !p.missing && pool.Spec.Range != p.rangeText {
		return nil, "", fmt.Errorf("%w: the range of IPPool %s is %q, expected %q; observe it again", ipam.ErrChanged, p.key, pool.Spec.Range, p.rangeText)
	}
	for _, i := range items {
		var found *wb.IPAllocation
		if allocation, ok := pool.Spec.Allocations[i.offset]; ok {
			found = &allocation
		}
		if s.pending(i, found) {
			rest = append(rest, i)
			if i.Interface == "" {
				version = pool.ResourceVersion
			}
		}
	}
	return rest, version, nil
}

// patch makes a step for all items at once or for none. With a version it tests that too.
func (p *poolWriter) patch(ctx context.Context, s step, items []*item, version string) error {
	operations := []operation{{"test", "/spec/range", p.rangeText}}
	if version != "" {
		operations = append(operations, operation{"test", "/metadata/resourceVersion", version})
	}
	for _, i := range items {
		operations = append(operations, s.operations(i, version != "")...)
	}
	return apply(ctx, p.writer, metadataOnly("IPPool", p.key), operations)
}
