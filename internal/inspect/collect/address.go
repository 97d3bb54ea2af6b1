// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/inspect/byhand"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Address reads what is known of an address. Pools come first, so that an entry is never newer than what explains it.
func (c *Cluster) Address(ctx context.Context, ip netip.Addr) (*who.Facts, error) {
	f := &who.Facts{IP: ip}
	backend, pools, err := c.Pools(ctx)
	if err != nil {
		return nil, err
	}
	f.Unserved.Pools = !pools
	all := backend.All()
	for i := range all.Entries {
		if all.Entries[i].IP == ip {
			f.Entries = append(f.Entries, all.Entries[i])
		}
	}
	f.Claims = c.claims(ctx, f.Entries)
	f.Problems = slices.DeleteFunc(slices.Clone(all.Problems), func(p ipam.Problem) bool { return p.Offset != "" })
	records, err := c.Records(ctx)
	if err := orUnserved(err, &f.Unserved.Records); err != nil {
		return nil, err
	}
	f.Records = havingAddress(records, ip)
	if len(f.Records) > 0 {
		if f.GuardedNodes, err = c.GuardedNodes(ctx); err != nil {
			return nil, err
		}
	}
	if f.Pods, err = c.podsShowing(ctx, ip); err != nil {
		return nil, err
	}
	return f, c.addressEvents(ctx, f)
}

// havingAddress are the records that have an address, in any pool.
func havingAddress(records []v1alpha1.IPAllocation, ip netip.Addr) (having []v1alpha1.IPAllocation) {
	for i := range records {
		if slices.ContainsFunc(records[i].Spec.Addresses, func(a v1alpha1.AddressRecord) bool { return a.IP == ip.String() }) {
			having = append(having, records[i])
		}
	}
	return having
}

// addressEvents sorts Holdfast's events into those that name the address, and the others about its holders.
func (c *Cluster) addressEvents(ctx context.Context, f *who.Facts) error {
	events, err := c.OurEvents(ctx)
	if err != nil {
		return err
	}
	holders := sets.New[types.UID]()
	for i := range f.Records {
		holders.Insert(f.Records[i].UID, types.UID(f.Records[i].Name))
	}
	for i := range f.Pods {
		holders.Insert(f.Pods[i].UID)
	}
	for i := range events {
		switch {
		case who.Names(events[i].Note, f.IP):
			f.Events = append(f.Events, events[i])
		case holders.Has(events[i].UID):
			f.Related = append(f.Related, events[i])
		}
	}
	return nil
}

// podsShowing reads the pods whose network-status shows an address. The metadata of all pods shows which these are: a pod without the label counts too.
func (c *Cluster) podsShowing(ctx context.Context, ip netip.Addr) ([]corev1.Pod, error) {
	var keys []client.ObjectKey
	all := pages.Metadata(ctx, c.Client, corev1.SchemeGroupVersion.WithKind("Pod"))
	err := walk(ctx, c, "pods", all, func(list *metav1.PartialObjectMetadataList) {
		for i := range list.Items {
			shown, _ := podnetwork.StatusAddresses(list.Items[i].Annotations) // what cannot be read shows nothing
			if slices.ContainsFunc(shown, func(a podnetwork.StatusAddress) bool { return a.IP == ip }) {
				keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, key := range keys {
		pod, err := c.podOf(ctx, ipam.PodRef(key))
		if err != nil {
			return nil, err
		}
		if pod != nil {
			pods = append(pods, *pod)
		}
	}
	return pods, nil
}

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

// owner finds the record that holds the entry's sandbox: one of a pod UID before one of an orphan.
func (c *Cluster) owner(ctx context.Context, f *byhand.Facts, snapshot ipam.Snapshot) error {
	records, err := c.Records(ctx)
	if err != nil {
		return err
	}
	var owner *v1alpha1.IPAllocation
	for i := range records {
		r := &records[i]
		holds := slices.ContainsFunc(r.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == f.Entry.SandboxID })
		if holds && (owner == nil || owner.IsOrphan()) {
			owner = r
		}
	}
	f.Records = havingAddress(records, f.Entry.IP)
	configuration, err := c.Configuration(ctx)
	if err != nil {
		return err
	}
	f.Queried = c.queriedAll(ctx, configuration, f.Entry.SandboxID, owner)
	if owner == nil && len(f.Records) == 0 {
		return nil
	}
	f.GuardedNodes = release.FactOf(c.GuardedNodes(ctx))
	if owner == nil {
		return nil
	}
	s := shared{configuration: configuration, entries: release.Known(snapshot), records: release.Known(records), guarded: f.GuardedNodes}
	c.readPolicies(ctx, &s)
	f.Owner, err = c.factsOfRecord(ctx, s, owner)
	return err
}

// queriedAll is byhand.Facts.Queried.
func (c *Cluster) queriedAll(ctx context.Context, configuration *Configuration, sandbox string, owner *v1alpha1.IPAllocation) release.Fact[time.Time] {
	isOwned := owner != nil && (owner.Spec.NodeName != "" || owner.Spec.Kubelet != nil || !owner.IsOrphan())
	if isOwned || config.Evidence(configuration.ManagerConfiguration) != release.EvidenceAgent || ownership.KindOf(sandbox) != ownership.KindSandbox {
		return release.Absent[time.Time]()
	}
	all, err := read[v1alpha1.AllNodesQuery](ctx, c, client.ObjectKey{Name: v1alpha1.AllNodesQueryName}, "allnodesqueries.holdfast.dev")
	if err != nil || all == nil {
		return release.FactOf(time.Time{}, err)
	}
	for i := range all.Spec.Queries {
		if q := &all.Spec.Queries[i]; q.SandboxID == sandbox {
			return release.Known(q.Time.Time)
		}
	}
	return release.Known(time.Time{})
}
