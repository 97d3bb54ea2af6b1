// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// BenchmarkAudit compares entries of as many pods, with a reservation and a record each, that are all in order: nothing changed since the last audit.
func BenchmarkAudit(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			pool := &largePool{}
			a, _, recorder := audited(b, &pool.auditedPool, nil)
			full := &fullCache{Client: a.client}
			var pod corev1.Pod
			if err := a.client.Get(b.Context(), types.NamespacedName{Namespace: "ns", Name: "web"}, &pod); err != nil {
				b.Fatal(err)
			}
			ip := netip.MustParseAddr("10.0.0.0")
			for i := range size {
				ip = ip.Next()
				full.add(&pod, i, ip)
				e := entryOfWeb()
				e.IP, e.SandboxID, e.PodRef = ip, fmt.Sprintf("%064d", i), fmt.Sprintf("ns/web-%d", i)
				pool.entries = append(pool.entries, e)
				pool.reservations = append(pool.reservations, ipam.Reservation{Name: "kube-system/" + ip.String(), PodRef: e.PodRef, Interface: e.Interface})
			}
			a.client, a.backend = full, pool
			b.ReportAllocs()
			for b.Loop() {
				if err := a.audit(b.Context()); err != nil || len(a.known) > 0 {
					b.Fatalf("%d findings, %q, error %v", len(a.known), drained(recorder), err)
				}
			}
		})
	}
}

// largePool has one large range.
type largePool struct{ auditedPool }

func (p *largePool) Ranges(string) []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
}
func (p *largePool) Covers(ip netip.Addr) bool {
	return netip.MustParsePrefix("10.0.0.0/8").Contains(ip)
}

// fullCache lists pods and records as the manager's cache does: copies, unless the caller wants none.
type fullCache struct {
	client.Client
	pods    []corev1.Pod
	records []v1alpha1.IPAllocation
}

func (c *fullCache) add(like *corev1.Pod, i int, ip netip.Addr) {
	pod := like.DeepCopy()
	pod.Name, pod.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
	for key, value := range pod.Annotations {
		pod.Annotations[key] = strings.ReplaceAll(value, "10.0.0.1", ip.String())
	}
	record := v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{PodNamespace: "ns", PodName: pod.Name, Sandboxes: []v1alpha1.SandboxRecord{{ID: fmt.Sprintf("%064d", i)}}}}
	record.Name = string(pod.UID)
	c.pods, c.records = append(c.pods, *pod), append(c.records, record)
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
		if !shared {
			list.Items = (&v1alpha1.IPAllocationList{Items: c.records}).DeepCopy().Items
		}
	default:
		return c.Client.List(ctx, into, o...)
	}
	return nil
}
