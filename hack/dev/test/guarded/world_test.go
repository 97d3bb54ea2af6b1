// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// world is one story's own namespace and addresses: 10.9.<n>.0/24 and 10.10.<n>.0/24, so that stories do not meet.
type world struct {
	namespace     string
	subnet        byte
	first, second netip.Prefix
}

var subnets byte

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	subnets++
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bug-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	w := &world{
		namespace: namespace.Name, subnet: subnets,
		first:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, subnets, 0}), 24),
		second: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 10, subnets, 0}), 24),
	}
	Eventually(ctx, func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())
	DeferCleanup(w.clear)
	return w
}

// at is the address at an offset of a /24.
func at(prefix netip.Prefix, offset byte) string {
	address := prefix.Addr().As4()
	address[3] = offset
	return netip.AddrFrom4(address).String()
}

// within is the range of this length that begins where the prefix does.
func within(prefix netip.Prefix, bits int) string {
	return netip.PrefixFrom(prefix.Addr(), bits).String()
}

// poolOf is the name that whereabouts gives to the pool of a range.
func poolOf(parts ...string) string {
	return strings.NewReplacer(":", "-", "/", "-").Replace(strings.Join(parts, "-"))
}

// settings are the ipam part of a network.
type settings map[string]any

func (w *world) define(ctx context.Context, name string, ipam settings) {
	GinkgoHelper()
	ipam = maps.Clone(ipam)
	ipam["type"] = "whereabouts"
	config, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "type": "macvlan", "ipam": ipam})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: string(config)},
	})).To(Succeed())
}

// definePool makes the pool that whereabouts otherwise makes at the first ADD; ADD treats it like any pool.
func (w *world) definePool(ctx context.Context, name, cidr string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &wbv1alpha1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: simnode.WhereaboutsNamespace, Name: name},
		Spec:       wbv1alpha1.IPPoolSpec{Range: cidr, Allocations: map[string]wbv1alpha1.IPAllocation{}},
	})).To(Succeed())
}

// newPod is a pod that terminates at once when it is deleted.
func (w *world) newPod(name, node, network string, annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: network}},
		Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "app"}}},
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	return pod
}

func (w *world) create(ctx context.Context, name, node, network string, annotations ...string) *corev1.Pod {
	GinkgoHelper()
	pod := w.newPod(name, node, network, annotations...)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// run creates a pod, waits until it runs, and returns its addresses of the story.
func (w *world) run(ctx context.Context, name, node, network string) (pod *corev1.Pod, addresses []string) {
	GinkgoHelper()
	pod = w.create(ctx, name, node, network)
	return pod, w.awaitRunning(ctx, pod)
}

func (w *world) awaitRunning(ctx context.Context, pod *corev1.Pod) (addresses []string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		var live corev1.Pod
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
		g.Expect(live.UID).To(Equal(pod.UID))
		g.Expect(live.Status.Phase).To(Equal(corev1.PodRunning))
		statuses, err := nadutils.GetNetworkStatus(&live)
		g.Expect(err).NotTo(HaveOccurred())
		addresses = nil
		for _, status := range statuses {
			addresses = append(addresses, slices.DeleteFunc(status.IPs, func(ip string) bool { return !w.owns(ip) })...)
		}
	}).Should(Succeed())
	return addresses
}

func (w *world) delete(ctx context.Context, pod *corev1.Pod, options ...client.DeleteOption) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod.DeepCopy(), append(options, client.Preconditions{UID: &pod.UID})...)).To(Succeed())
}

func (w *world) end(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	w.delete(ctx, pod)
	w.awaitGone(ctx, pod)
}

// awaitGone waits until the pod of this UID does not exist.
func (w *world) awaitGone(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		var live corev1.Pod
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && live.UID != pod.UID, err
	}).Should(BeTrue(), "pod %s (UID %s)", pod.Name, pod.UID)
}

func (w *world) owns(ip string) bool {
	address, err := netip.ParseAddr(ip)
	return err == nil && (w.first.Contains(address) || w.second.Contains(address))
}

// entries are what the story's pools hold: "<pool> <address>" to the pod's name.
func (w *world) entries(ctx context.Context, g Gomega) map[string]string {
	entries := map[string]string{}
	for _, pool := range w.pools(ctx, g) {
		start := netip.MustParsePrefix(pool.Spec.Range).Addr().As4()
		for offset, entry := range pool.Spec.Allocations {
			n, err := strconv.ParseUint(offset, 10, 8)
			g.Expect(err).NotTo(HaveOccurred())
			address := start
			address[3] += byte(n)
			entries[pool.Name+" "+netip.AddrFrom4(address).String()] = strings.TrimPrefix(entry.PodRef, w.namespace+"/")
		}
	}
	return entries
}

func (w *world) pools(ctx context.Context, g Gomega) []wbv1alpha1.IPPool {
	var list wbv1alpha1.IPPoolList
	g.Expect(admin.List(ctx, &list, client.InNamespace(simnode.WhereaboutsNamespace))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(p wbv1alpha1.IPPool) bool {
		return !w.owns(strings.Split(p.Spec.Range, "/")[0])
	})
}

// reservations are those of the story's pods: their names to the pods' names.
func (w *world) reservations(ctx context.Context, g Gomega) map[string]string {
	var list wbv1alpha1.OverlappingRangeIPReservationList
	g.Expect(admin.List(ctx, &list, client.InNamespace(simnode.WhereaboutsNamespace))).To(Succeed())
	reservations := map[string]string{}
	for i := range list.Items {
		if pod, own := strings.CutPrefix(list.Items[i].Spec.PodRef, w.namespace+"/"); own {
			reservations[list.Items[i].Name] = pod
		}
	}
	return reservations
}

// users are the names of the pods whose sandboxes are alive with the address, in the order of the sandboxes.
func (w *world) users(ctx context.Context, g Gomega, ip string) []string {
	all, err := theCluster.SimNode().Sandboxes(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for i := range all {
		if all[i].Alive && slices.ContainsFunc(all[i].Addresses, func(a api.Address) bool { return a.IP == ip }) {
			names = append(names, all[i].PodName)
		}
	}
	return names
}

// use is the time in which a sandbox used an address: from its ADD to the end of its process, which comes before its DEL.
type use struct {
	sandbox  api.Sandbox
	from, to time.Time
}

// expectNoDuplicate looks at all that ever ran in the story: no two live sandboxes had one address.
func (w *world) expectNoDuplicate(ctx context.Context) {
	GinkgoHelper()
	sandboxes, err := theCluster.SimNode().Sandboxes(ctx)
	Expect(err).NotTo(HaveOccurred())
	history, err := theCluster.SimNode().History(ctx)
	Expect(err).NotTo(HaveOccurred())
	uses := map[string][]use{}
	for _, event := range history {
		i := slices.IndexFunc(sandboxes, func(s api.Sandbox) bool { return s.ID == event.SandboxID && s.PodNamespace == w.namespace })
		if i < 0 || event.Event != api.EventAdd || !w.owns(event.IP) {
			continue
		}
		u := use{sandbox: sandboxes[i], from: event.Time, to: time.Now()}
		if ended := sandboxes[i].EndedAt; ended != nil {
			u.to = *ended
		}
		uses[event.IP] = append(uses[event.IP], u)
	}
	for ip, all := range uses {
		for i := range all[1:] { // in the order of their ADDs
			Expect(all[i+1].from).To(BeTemporally(">=", all[i].to), "%s was used by sandbox %s of %s and by sandbox %s of %s at once",
				ip, all[i].sandbox.ID, all[i].sandbox.PodName, all[i+1].sandbox.ID, all[i+1].sandbox.PodName)
		}
	}
}

// happened is how often something happened to the sandboxes of a pod.
func happened(ctx context.Context, g Gomega, pod *corev1.Pod, kind string) (n int) {
	history, err := theCluster.SimNode().History(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	for i := range history {
		if history[i].PodUID == string(pod.UID) && history[i].Event == kind {
			n++
		}
	}
	return n
}

// withoutManager does something while the manager is down: its webhooks let everything pass then.
func (w *world) withoutManager(ctx context.Context, something func()) {
	GinkgoHelper()
	Expect(theCluster.Manager().Stop(0)).To(Succeed())
	something()
	Expect(theCluster.StartManager(ctx)).To(Succeed())
}

// expectNothingLeft waits until no pool, reservation or record knows of the story's pods.
func (w *world) expectNothingLeft(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(w.entries(ctx, g)).To(BeEmpty())
		g.Expect(w.reservations(ctx, g)).To(BeEmpty())
	}).Should(Succeed())
}

// clear ends what a story has left behind, so that the next reconciler's run sees its own story only.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
	for i := range pods.Items {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, &pods.Items[i]))).To(Succeed())
	}
	for i := range pods.Items {
		w.awaitGone(ctx, &pods.Items[i])
	}
	Expect(client.IgnoreNotFound(admin.Delete(ctx, w.slices()))).To(Succeed()) // the pods' last DEL needs it
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		for _, pool := range w.pools(ctx, g) {
			g.Expect(client.IgnoreNotFound(admin.Delete(ctx, &pool))).To(Succeed())
		}
		for name := range w.reservations(ctx, g) {
			reservation := &wbv1alpha1.OverlappingRangeIPReservation{}
			reservation.Namespace, reservation.Name = simnode.WhereaboutsNamespace, name
			g.Expect(client.IgnoreNotFound(admin.Delete(ctx, reservation))).To(Succeed())
		}
	}).Should(Succeed())
}

// slicedNetwork defines a network of node slices in which these nodes have one each, of 64 addresses, in this order.
func (w *world) slicedNetwork(ctx context.Context, name string, more settings, nodes ...string) {
	GinkgoHelper()
	ipam := settings{"range": w.first.String(), "node_slice_size": "/26", "network_name": name}
	maps.Copy(ipam, more)
	w.define(ctx, name, ipam)
	Expect(admin.Create(ctx, w.slices(nodes...))).To(Succeed())
}

// slices is the division of the network that has the namespace's name.
func (w *world) slices(nodes ...string) *wbv1alpha1.NodeSlicePool {
	pool := &wbv1alpha1.NodeSlicePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: simnode.WhereaboutsNamespace, Name: w.namespace,
			Annotations: map[string]string{"holdfast.dev/break-glass": "a node loses its slice in this story"}},
		Spec: wbv1alpha1.NodeSlicePoolSpec{Range: w.first.String(), SliceSize: "/26"},
	}
	for i, node := range nodes {
		pool.Status.Allocations = append(pool.Status.Allocations, wbv1alpha1.NodeSliceAllocation{
			NodeName: node, SliceRange: at(w.first, byte(64*i)) + "/26",
		})
	}
	return pool
}

// holder is the holder of whereabouts' lease for a node's slice; empty without one.
func holder(ctx context.Context, g Gomega, lease string) string {
	var l coordinationv1.Lease
	err := admin.Get(ctx, client.ObjectKey{Namespace: simnode.WhereaboutsNamespace, Name: lease}, &l)
	if apierrors.IsNotFound(err) || err == nil && l.Spec.HolderIdentity == nil {
		return ""
	}
	g.Expect(err).NotTo(HaveOccurred())
	return *l.Spec.HolderIdentity
}
