// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect/byhand"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// ByHand reads what concerns the one entry at an address that is meant, and opens the backend that can release it.
func (c *Cluster) ByHand(ctx context.Context, ip netip.Addr, pool, sandbox string) (*byhand.Facts, ipam.Auditable, error) {
	backend, _, err := c.Pools(ctx)
	if err != nil {
		return nil, nil, err
	}
	snapshot := backend.All()
	at := slices.DeleteFunc(slices.Clone(snapshot.Entries), func(e ipam.Entry) bool { return e.IP != ip })
	entry, err := byhand.Select(at, pool, sandbox)
	if err != nil {
		return nil, nil, err
	}
	f := &byhand.Facts{Entry: *entry, Claims: c.claims(ctx, []ipam.Entry{*entry})}
	if f.Showing, err = c.podsShowing(ctx, ip); err != nil {
		return nil, nil, err
	}
	if entry.Owner != nil {
		if f.Named, err = c.podOf(ctx, *entry.Owner); err != nil {
			return nil, nil, err
		}
	}
	return f, backend, c.owner(ctx, f, snapshot)
}

// AsManager opens the backend as the manager's account, for which the webhooks let every release through.
func (c *Cluster) AsManager(ctx context.Context) (ipam.Auditable, error) {
	acting := rest.CopyConfig(c.Config)
	acting.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + c.Namespace + ":" + managerName}
	as, err := New(acting, c.Namespace, c.pools, c.Progress)
	if err != nil {
		return nil, err
	}
	backend, _, err := as.Pools(ctx)
	if err != nil {
		return nil, fmt.Errorf("acting as the manager's account: %w", err)
	}
	return backend, nil
}

// owner finds the record that holds the entry's sandbox: a pod UID's before an orphan's.
func (c *Cluster) owner(ctx context.Context, f *byhand.Facts, snapshot ipam.Snapshot) error {
	records, err := c.Records(ctx)
	if err != nil {
		return err
	}
	var owner *v1alpha1.IPAllocation
	for i := range records {
		r := &records[i]
		holds := slices.ContainsFunc(r.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == f.Entry.SandboxID })
		if holds && (owner == nil || strings.HasPrefix(owner.Name, v1alpha1.OrphanPrefix)) {
			owner = r
		}
	}
	if owner == nil {
		return nil
	}
	configuration, err := c.Configuration(ctx)
	if err != nil {
		return err
	}
	ref := ipam.PodRef{Namespace: owner.Spec.PodNamespace, Name: owner.Spec.PodName}
	var pod *corev1.Pod
	if ref.Name != "" {
		if pod, err = c.podOf(ctx, ref); err != nil {
			return err
		}
	}
	s := shared{configuration: configuration, entries: release.Known(snapshot), records: release.Known(records),
		guarded: factOf(func() ([]v1alpha1.GuardedNode, error) { return c.GuardedNodes(ctx) })}
	f.Owner = c.factsOf(ctx, s, types.UID(owner.Name), ref, pod)
	return nil
}
