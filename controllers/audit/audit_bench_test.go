// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// BenchmarkAudit is an audit after a full one, with as many pods as entries and a reservation and a record each, all in order: nothing
// changed in between.
func BenchmarkAudit(b *testing.B) { benchmarkAudits(b, func(*auditor, *largePool) {}) }

// BenchmarkAuditOfChanges is one after 100 entries with their pods, reservations and records changed.
func BenchmarkAuditOfChanges(b *testing.B) {
	benchmarkAudits(b, func(a *auditor, pool *largePool) {
		for i := range 100 {
			e := &pool.entries[i*len(pool.entries)/100]
			a.poolChanged(event(*e))
			a.reservationChanged(pool.byPodRef[e.PodRef].reservation)
			a.podChanged(pool.byPodRef[e.PodRef].pod)
			a.recordChanged(pool.byPodRef[e.PodRef].record)
		}
	})
}

// BenchmarkFullAudit compares everything.
func BenchmarkFullAudit(b *testing.B) {
	benchmarkAudits(b, func(a *auditor, _ *largePool) { a.changes.addAll() })
}

func benchmarkAudits(b *testing.B, change func(*auditor, *largePool)) {
	for _, size := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			pool := &largePool{byPodRef: map[string]*inOrder{}, byAddress: map[netip.Addr]*inOrder{}}
			a, _, recorder := audited(b, &pool.auditedPool, nil)
			full := &fullCache{Client: a.client, byPodRef: pool.byPodRef, byUID: map[string]*inOrder{}, indexed: map[string][]v1alpha1.IPAllocation{}}
			var pod corev1.Pod
			if err := a.client.Get(b.Context(), types.NamespacedName{Namespace: "ns", Name: "web"}, &pod); err != nil {
				b.Fatal(err)
			}
			ip := netip.MustParseAddr("10.0.0.0")
			for i := range size {
				ip = ip.Next()
				pool.byAddress[ip] = full.add(&pod, i, ip)
				pool.entries = append(pool.entries, pool.byAddress[ip].entry)
				pool.reservations = append(pool.reservations, pool.byAddress[ip].reservation)
			}
			a.client, a.backend, a.informers = full, pool, &informertest.FakeInformers{Scheme: a.client.Scheme()}
			examine := func() {
				if err := a.audit(b.Context()); err != nil || len(a.known) > 0 || !a.last.followed {
					b.Fatalf("%d findings, %q, error %v, changes are followed: %t", len(a.known), drained(recorder), err, a.last.followed)
				}
			}
			examine()
			b.ReportAllocs()
			for b.Loop() {
				change(a, pool)
				examine()
			}
		})
	}
}

// inOrder is one entry with all that belongs to it.
type inOrder struct {
	entry       ipam.Entry
	reservation ipam.Reservation
	pod         *corev1.Pod
	record      *v1alpha1.IPAllocation
}

// largePool has one large range.
type largePool struct {
	auditedPool
	byPodRef  map[string]*inOrder
	byAddress map[netip.Addr]*inOrder
}

func (p *largePool) Ranges(string) []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
}
func (p *largePool) Covers(ip netip.Addr) bool {
	return netip.MustParsePrefix("10.0.0.0/8").Contains(ip)
}
func (p *largePool) WatchReservations(context.Context, func(ipam.Reservation)) error { return nil }
func (p *largePool) ReservationsSynced() bool                                        { return true }

func (p *largePool) Find(q ipam.Query) (s ipam.Snapshot) {
	for _, found := range p.matching([]string{q.Pod.String()}, q.Addresses) {
		s.Entries = append(s.Entries, found.entry)
	}
	return s
}

func (p *largePool) CachedReservations(podRefs []string, addresses []netip.Addr) (all []ipam.Reservation) {
	for _, found := range p.matching(podRefs, addresses) {
		all = append(all, found.reservation)
	}
	return all
}

func (p *largePool) matching(podRefs []string, addresses []netip.Addr) (all []*inOrder) {
	for _, ref := range podRefs {
		if found := p.byPodRef[ref]; found != nil {
			all = append(all, found)
		}
	}
	for _, ip := range addresses {
		if found := p.byAddress[ip]; found != nil {
			all = append(all, found)
		}
	}
	return all
}

// fullCache reads pods and records as the manager's cache does: copies, unless the caller wants none.
type fullCache struct {
	client.Client
	pods            []corev1.Pod
	records         []v1alpha1.IPAllocation
	byPodRef, byUID map[string]*inOrder
	// indexed are the records under each field and key of the cache's indexes.
	indexed map[string][]v1alpha1.IPAllocation
}

func (c *fullCache) add(like *corev1.Pod, i int, ip netip.Addr) *inOrder {
	pod := like.DeepCopy()
	pod.Name, pod.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
	for key, value := range pod.Annotations {
		pod.Annotations[key] = strings.ReplaceAll(value, "10.0.0.1", ip.String())
	}
	record := v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{PodNamespace: "ns", PodName: pod.Name, Sandboxes: []v1alpha1.SandboxRecord{{ID: fmt.Sprintf("%064d", i)}}}}
	record.Name = string(pod.UID)
	c.pods, c.records = append(c.pods, *pod), append(c.records, record)
	e := entryOfWeb()
	e.IP, e.SandboxID, e.PodRef = ip, record.Spec.Sandboxes[0].ID, "ns/"+pod.Name
	e.Owner = &ipam.PodRef{Namespace: "ns", Name: pod.Name}
	all := &inOrder{entry: e, pod: pod, record: &record,
		reservation: ipam.Reservation{Name: "kube-system/" + ip.String(), PodRef: e.PodRef, Interface: e.Interface}}
	c.byPodRef[e.PodRef], c.byUID[record.Name] = all, all
	for _, i := range index.All {
		if _, is := i.Object.(*v1alpha1.IPAllocation); is {
			for _, key := range i.Keys(&record) {
				c.indexed[i.Field+"="+key] = append(c.indexed[i.Field+"="+key], record)
			}
		}
	}
	return all
}

func (c *fullCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	var options client.GetOptions
	options.ApplyOptions(o)
	shared := options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy
	switch into := into.(type) {
	case *corev1.Pod:
		found := c.byPodRef[key.String()]
		if found == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
		}
		if *into = *found.pod; !shared {
			found.pod.DeepCopyInto(into)
		}
		return nil
	case *v1alpha1.IPAllocation:
		found := c.byUID[key.Name]
		if found == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "ipallocations"}, key.Name)
		}
		if *into = *found.record; !shared {
			found.record.DeepCopyInto(into)
		}
		return nil
	default:
		return c.Client.Get(ctx, key, into, o...)
	}
}

func (c *fullCache) List(ctx context.Context, into client.ObjectList, o ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(o)
	shared := options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = c.pods
		if !shared {
			list.Items = (&corev1.PodList{Items: c.pods}).DeepCopy().Items
		}
	case *v1alpha1.IPAllocationList:
		list.Items = c.records
		if options.FieldSelector != nil {
			list.Items = c.indexed[options.FieldSelector.String()]
		}
		if !shared {
			list.Items = list.DeepCopy().Items
		}
	default:
		return c.Client.List(ctx, into, o...)
	}
	return nil
}
