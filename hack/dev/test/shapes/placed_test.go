// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// placed is a pod of a shape on a node.
type placed struct {
	shape *shape
	node  string
	// pod is as created.
	pod *corev1.Pod
	// addresses are what it had when it was served; nil before.
	addresses []address
}

// address is one that a pod holds.
type address struct{ Pool, IP, Interface, Sandbox, PodRef string }

// define makes the networks of a shape.
func (s *shape) define(ctx context.Context) {
	GinkgoHelper()
	for name, config := range s.networks {
		network := &nadv1.NetworkAttachmentDefinition{ObjectMeta: networkMeta(name), Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: inDirectory(config)}}
		Expect(admin.Create(ctx, network)).To(Succeed())
	}
}

func (s *shape) undefine(ctx context.Context) {
	GinkgoHelper()
	for name := range s.networks {
		Expect(admin.Delete(ctx, &nadv1.NetworkAttachmentDefinition{ObjectMeta: networkMeta(name)})).To(Succeed())
	}
}

func networkMeta(name string) metav1.ObjectMeta {
	if in, name, elsewhere := strings.Cut(name, "/"); elsewhere {
		return metav1.ObjectMeta{Namespace: in, Name: name}
	}
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// place creates a pod of a shape on a node. It ends at once when it is told to.
func (s *shape) place(ctx context.Context, node string) *placed {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.id + "-on-" + node, Annotations: s.annotations()},
		Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "app"}}},
	}
	for key, value := range pod.Annotations {
		pod.Annotations[key] = strings.ReplaceAll(value, "$NAMESPACE", namespace)
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return &placed{shape: s, node: node, pod: pod}
}

func (p *placed) podRef() string { return p.pod.Namespace + "/" + p.pod.Name }

// delete asks for the deletion of this very pod.
func (p *placed) delete(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, p.pod.DeepCopy(), client.Preconditions{UID: &p.pod.UID})).To(Succeed())
}

// awaitServed waits until the pod runs with just the addresses that its shape gives: in network-status, in the pools, in
// reservations and in the record.
func (p *placed) awaitServed(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		var now corev1.Pod
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p.pod), &now)).To(Succeed())
		g.Expect(now.UID).To(Equal(p.pod.UID))
		g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning))
		g.Expect(now.Finalizers).To(ContainElement(v1alpha1.Finalizer))
		g.Expect(now.Labels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))

		addresses, reservations := p.expected(ctx, g, &now)
		g.Expect(inPools(ctx, g, p.podRef())).To(ConsistOf(addresses))
		g.Expect(reserved(ctx, g, p.podRef())).To(ConsistOf(reservations))
		g.Expect(p.recorded(ctx, g)).To(ConsistOf(addresses))
		p.addresses = nil
		for _, a := range addresses {
			p.addresses = append(p.addresses, a.(address))
		}
	}).Should(Succeed(), "pod %s (UID %s)", p.podRef(), p.pod.UID)
}

// expected are the addresses that network-status shows where the shape has some, and the names of their reservations.
func (p *placed) expected(ctx context.Context, g Gomega, now *corev1.Pod) (addresses, reservations []any) {
	statuses, err := nadutils.GetNetworkStatus(now)
	g.Expect(err).NotTo(HaveOccurred())
	sandbox := p.sandbox(ctx, g)
	for _, h := range p.shape.holds {
		pool, within := h.find(ctx, g, p.node)
		var shown []netip.Addr
		for _, status := range statuses {
			for _, text := range status.IPs {
				if ip := netip.MustParseAddr(text); status.Interface == h.iface && within.Contains(ip) {
					shown = append(shown, ip)
				}
			}
		}
		g.Expect(shown).To(HaveLen(1), "addresses in %s on %s: %v", within, h.iface, statuses)
		addresses = append(addresses, address{pool, shown[0].String(), h.iface, sandbox, p.podRef()})
		reservation := h.inNamespace() + "/" + wbkubernetes.NormalizeIP(net.IP(shown[0].AsSlice()), h.network)
		if !h.unreserved && !slices.Contains(reservations, any(reservation)) {
			reservations = append(reservations, reservation)
		}
	}
	return addresses, reservations
}

func (h holding) inNamespace() string {
	if h.namespace == "" {
		return firstNamespace
	}
	return h.namespace
}

// find gives the pool as "namespace/name", by whereabouts' own rule, and where in it the address is.
func (h holding) find(ctx context.Context, g Gomega, node string) (pool string, within netip.Prefix) {
	id := wbkubernetes.PoolIdentifier{IpRange: h.pool, NetworkName: h.network}
	if h.sliced {
		var slices wbv1alpha1.NodeSlicePool
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: h.inNamespace(), Name: h.pool}, &slices)).To(Succeed())
		id.NodeName, id.IpRange = node, ""
		for _, slice := range slices.Status.Allocations {
			if slice.NodeName == node {
				id.IpRange = slice.SliceRange
			}
		}
		g.Expect(id.IpRange).NotTo(BeEmpty(), "node %s has no slice of %s", node, h.pool)
	}
	if h.within == "" {
		h.within = id.IpRange
	}
	return h.inNamespace() + "/" + wbkubernetes.IPPoolName(id), netip.MustParsePrefix(h.within)
}

// sandbox is the pod's one READY sandbox.
func (p *placed) sandbox(ctx context.Context, g Gomega) string {
	all, err := theCluster.StandIn().Sandboxes(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	all = slices.DeleteFunc(all, func(s api.Sandbox) bool { return s.PodUID != string(p.pod.UID) || s.State != api.StateReady })
	g.Expect(all).To(HaveLen(1))
	return all[0].ID
}

// recorded are the addresses in the pod's record; none where there is no record.
func (p *placed) recorded(ctx context.Context, g Gomega) []address {
	var record v1alpha1.IPAllocation
	err := admin.Get(ctx, client.ObjectKey{Name: string(p.pod.UID)}, &record)
	if apierrors.IsNotFound(err) {
		return nil
	}
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(record.Spec.NodeName).To(Equal(p.node))
	var addresses []address
	for _, a := range record.Spec.Addresses {
		g.Expect(a.Backend).To(Equal("whereabouts"))
		addresses = append(addresses, address{a.Pool, a.IP, a.Interface, a.SandboxID, a.PodRef})
	}
	return addresses
}

// inPools are the entries with a podref in all pools of both namespaces.
func inPools(ctx context.Context, g Gomega, podRef string) []address {
	var found []address
	for _, in := range []string{firstNamespace, secondNamespace} {
		var pools wbv1alpha1.IPPoolList
		g.Expect(admin.List(ctx, &pools, client.InNamespace(in))).To(Succeed())
		for i := range pools.Items {
			for offset, entry := range pools.Items[i].Spec.Allocations {
				if entry.PodRef == podRef {
					ip := addressAt(g, pools.Items[i].Spec.Range, offset)
					found = append(found, address{in + "/" + pools.Items[i].Name, ip.String(), entry.IfName, entry.ContainerID, entry.PodRef})
				}
			}
		}
	}
	return found
}

// addressAt counts as whereabouts does, from the network address.
func addressAt(g Gomega, network, offset string) netip.Addr {
	prefix, err := netip.ParsePrefix(network)
	g.Expect(err).NotTo(HaveOccurred())
	n, isNumber := new(big.Int).SetString(offset, 10)
	g.Expect(isNumber && n.IsUint64()).To(BeTrue(), "offset %q", offset)
	bytes := prefix.Masked().Addr().AsSlice()
	low := bytes[max(0, len(bytes)-8):]
	if len(low) == 8 {
		binary.BigEndian.PutUint64(low, binary.BigEndian.Uint64(low)+n.Uint64())
	} else {
		binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+uint32(n.Uint64())) // #nosec G115 -- of an IPv4 range
	}
	ip, _ := netip.AddrFromSlice(bytes)
	return ip
}

// reserved are the reservations with a podref in both namespaces, as "namespace/name".
func reserved(ctx context.Context, g Gomega, podRef string) []string {
	var found []string
	for _, in := range []string{firstNamespace, secondNamespace} {
		var list wbv1alpha1.OverlappingRangeIPReservationList
		g.Expect(admin.List(ctx, &list, client.InNamespace(in))).To(Succeed())
		for i := range list.Items {
			if list.Items[i].Spec.PodRef == podRef {
				found = append(found, in+"/"+list.Items[i].Name)
			}
		}
	}
	return found
}

// awaitNothingLeft waits until the pod is gone, and everything that it had: entries, tombstones, reservations, record. It
// must have been served.
func (p *placed) awaitNothingLeft(ctx context.Context) {
	GinkgoHelper()
	Expect(p.addresses).To(HaveLen(len(p.shape.holds)), "pod %s has not been served", p.podRef())
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(p.pod), &corev1.Pod{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the pod is still there: %v", err)
		g.Expect(inPools(ctx, g, p.podRef())).To(BeEmpty())
		g.Expect(inPools(ctx, g, fmt.Sprintf("%s/%s", v1alpha1.TombstonePrefix, p.pod.UID))).To(BeEmpty())
		g.Expect(reserved(ctx, g, p.podRef())).To(BeEmpty())
		var records v1alpha1.IPAllocationList
		g.Expect(admin.List(ctx, &records, client.MatchingFields{"spec.podNamespace": namespace, "spec.podName": p.pod.Name})).To(Succeed())
		g.Expect(records.Items).To(BeEmpty())
	}).Should(Succeed(), "pod %s (UID %s)", p.podRef(), p.pod.UID)
}

// dels are how the CNI DELs of the pod's addresses from whereabouts ended.
func (p *placed) dels(ctx context.Context, g Gomega) (passed, failed int) {
	history, err := theCluster.StandIn().History(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	for _, event := range history {
		ours := slices.ContainsFunc(p.addresses, func(a address) bool { return a.IP == event.IP && a.Sandbox == event.SandboxID })
		switch {
		case !ours:
		case event.Event == api.EventDel:
			passed++
		case event.Event == api.EventDelFailed:
			failed++
			AddReportEntry("a DEL that failed", event.Message, ReportEntryVisibilityFailureOrVerbose)
		}
	}
	return passed, failed
}
