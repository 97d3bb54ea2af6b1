// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
)

// world is a cluster that changes at random, with an audit that follows it and one that compares everything each time.
type world struct {
	auditedPool
	t           *testing.T
	rand        *rand.Rand
	taken       map[ipam.Place]ipam.Entry
	reserved    map[string]ipam.Reservation
	broken      map[string]ipam.Problem
	scheduled   sets.Set[string]
	reservation func(ipam.Reservation)
	informers   *informertest.FakeInformers
	fulls       int
	// unlisted: the first list of the reservations has not come. err fails each audit.
	unlisted bool
	err      error

	following, whole *auditor
}

var (
	worldPools = []string{"kube-system/10.0.0.0-24", "kube-system/net-10.0.0.0-24", "kube-system/node-a-10.0.0.0-26"}
	worldRefs  = []string{"ns/a", "ns/b", "other/a"}
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), taken: map[ipam.Place]ipam.Entry{}, reserved: map[string]ipam.Reservation{}, //nolint:gosec // to be repeated
		broken: map[string]ipam.Problem{}, scheduled: sets.New[string](), informers: &informertest.FakeInformers{}}
	w.slicedBy, w.divided = "wb", dividedFor("node-a")
	a, _, _ := audited(t, &w.auditedPool, nil)
	w.informers.Scheme = a.client.Scheme()
	if err := a.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}); err != nil {
		t.Fatal(err)
	}
	o := a.options
	o.ReleaseDelay, o.Scheduled = time.Hour, func() []string { return w.scheduled.UnsortedList() }
	w.whole = newAuditor(a.client, a.client, w, a.recorder, a.clock, o)
	w.whole.informers = a.informers
	w.following = newAuditor(a.client, a.client, w, a.recorder, a.clock, o)
	w.following.informers = w.informers
	return w
}

func (w *world) All() ipam.Snapshot {
	w.fulls++
	return w.find(func(ipam.Entry) bool { return true }, func(ipam.Problem) bool { return true })
}

// Find selects as the index of whereabouts does.
func (w *world) Find(q ipam.Query) ipam.Snapshot {
	return w.find(func(e ipam.Entry) bool {
		return e.PodRef == q.Pod.String() || slices.Contains(q.SandboxIDs, e.SandboxID) || slices.Contains(q.Addresses, e.IP)
	}, func(p ipam.Problem) bool { return p.PodRef == q.Pod.String() || p.Offset == "" && len(q.Addresses) > 0 })
}

func (w *world) find(isEntry func(ipam.Entry) bool, isProblem func(ipam.Problem) bool) (s ipam.Snapshot) {
	for _, e := range w.taken {
		if isEntry(e) {
			s.Entries = append(s.Entries, e)
		}
	}
	for _, p := range w.broken {
		if isProblem(p) {
			s.Problems = append(s.Problems, p)
		}
	}
	slices.SortFunc(s.Entries, func(x, y ipam.Entry) int { return cmp.Or(cmp.Compare(x.Pool, y.Pool), x.IP.Compare(y.IP)) })
	return s
}

func (w *world) Reserves(config string) bool { return !strings.Contains(config, "unreserved") }
func (w *world) Reservations(context.Context) ([]ipam.Reservation, error) {
	return slices.Collect(maps.Values(w.reserved)), nil
}
func (w *world) ReservationNames(e *ipam.Entry) []string {
	names := []string{"kube-system/" + e.IP.String()}
	if e.Pool == worldPools[1] {
		names = append(names, "kube-system/net-"+e.IP.String())
	}
	return names
}
func (w *world) WatchReservations(_ context.Context, changed func(ipam.Reservation)) error {
	w.reservation = changed
	return nil
}
func (w *world) ReservationsSynced() bool { return !w.unlisted }
func (w *world) SlicePools(context.Context) ([]*ipam.SlicePool, error) {
	return w.divided, w.err
}
func (w *world) CachedReservations(podRefs []string, addresses []netip.Addr) (found []ipam.Reservation) {
	for _, r := range w.reserved {
		at := func(ip netip.Addr) bool { return slices.Contains(addresses, ip) }
		if slices.Contains(podRefs, r.PodRef) || slices.ContainsFunc(w.ReservationAddresses(r.Name), at) {
			found = append(found, r)
		}
	}
	return found
}

func (w *world) ref() string { return worldRefs[w.rand.IntN(len(worldRefs))] }
func (w *world) ip() netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + w.rand.IntN(4))})
}
func (w *world) sandbox() string { return fmt.Sprint("sandbox-", w.rand.IntN(6)) }
func (w *world) often() bool     { return w.rand.IntN(4) > 0 }

// like is an entry of a pod that is there, or else of any: most of what is written agrees with something.
func (w *world) like(is func(ipam.Entry) bool) ipam.Entry {
	all := w.find(is, func(ipam.Problem) bool { return false }).Entries
	if w.often() && len(all) > 0 {
		return all[w.rand.IntN(len(all))]
	}
	return ipam.Entry{Key: ipam.Key{PodRef: w.ref(), IP: w.ip()}}
}
func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) informer(kind client.Object) *controllertest.FakeInformer {
	informer, err := w.informers.FakeInformerFor(w.t.Context(), kind)
	w.check(err)
	return informer
}

// put makes an object, changes or deletes it, and has the informer tell of it.
func (w *world) put(before, after client.Object) {
	switch {
	case before == nil:
		w.check(w.whole.client.Create(w.t.Context(), after))
		w.informer(after).Add(after.(metav1.Object))
	case after == nil:
		w.check(w.whole.client.Delete(w.t.Context(), before))
		w.informer(before).Delete(before.(metav1.Object))
	default:
		w.check(w.whole.client.Update(w.t.Context(), after))
		w.informer(after).Update(before.(metav1.Object), after.(metav1.Object))
	}
}

// event is what a pool's change of entries tells.
func event(entries ...ipam.Entry) (e ipam.Event) {
	for i := range entries {
		if entries[i].Owner != nil {
			e.PodRefs = append(e.PodRefs, *entries[i].Owner)
		}
		e.Addresses = append(e.Addresses, entries[i].IP)
	}
	return e
}

func (w *world) changeEntry() string {
	at := ipam.Place{Pool: worldPools[w.rand.IntN(len(worldPools))], IP: w.ip()}
	before, had := w.taken[at]
	if delete(w.taken, at); had && w.rand.IntN(3) == 0 {
		w.following.poolChanged(event(before))
		return fmt.Sprint("removed ", before)
	}
	e := ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: at.Pool, IP: at.IP, SandboxID: w.sandbox(), PodRef: w.ref(), Interface: "net1"}}
	switch w.rand.IntN(6) {
	case 0:
		e.PodRef = "holdfast-releasing/record"
	case 1:
		e.PodRef = "malformed"
	}
	e.Owner, e.Releasing, _ = ipam.ParseReference(e.PodRef)
	w.taken[at] = e
	if had {
		w.following.poolChanged(event(before, e))
	} else {
		w.following.poolChanged(event(e))
	}
	return fmt.Sprint("wrote ", e)
}

func (w *world) changeReservation() string {
	of := w.like(func(ipam.Entry) bool { return true })
	name := "kube-system/" + of.IP.String()
	switch w.rand.IntN(8) {
	case 0, 1:
		name = "kube-system/net-" + of.IP.String()
	case 2:
		name = "kube-system/without-an-address"
	}
	before, had := w.reserved[name]
	if had {
		delete(w.reserved, name)
		w.reservation(before)
	}
	if had && w.rand.IntN(2) == 0 {
		return "unreserved " + name
	}
	w.reserved[name] = ipam.Reservation{Name: name, PodRef: of.PodRef, Interface: "net1"}
	if w.rand.IntN(4) == 0 {
		w.reserved[name] = ipam.Reservation{Name: name, PodRef: "ns/without-pod-and-entry", Interface: "net1"}
	}
	w.reservation(w.reserved[name])
	return fmt.Sprint("reserved ", w.reserved[name])
}

func (w *world) changePod() string {
	namespace, name, _ := strings.Cut(w.ref(), "/")
	var before corev1.Pod
	had := w.whole.client.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &before) == nil
	if had && w.rand.IntN(3) == 0 {
		w.put(&before, nil)
		return "deleted pod " + namespace + "/" + name
	}
	after := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint("uid-", w.rand.IntN(1000)))}}
	if had {
		after = before.DeepCopy()
	}
	own := w.like(func(e ipam.Entry) bool { return e.PodRef == namespace+"/"+name })
	after.Annotations = map[string]string{nadv1.NetworkStatusAnnot: fmt.Sprintf(`[{"name":"ns/wb","interface":"net1","ips":["%s"]},{"name":"ns/wb2","interface":"net2","ips":["%s"]}]`, own.IP, w.ip())}
	if w.often() {
		after.Annotations[nadv1.NetworkAttachmentAnnot] = "ns/wb,ns/wb2"
	}
	after.Spec.NodeName = []string{"node-a", "node-b"}[w.rand.IntN(2)]
	if after.Status.Phase = corev1.PodPending; w.often() {
		after.Status.Phase = corev1.PodRunning
	}
	if !had {
		w.put(nil, after)
	} else {
		w.put(&before, after)
	}
	return fmt.Sprint("wrote pod ", namespace, "/", name, " ", after.Annotations)
}

func (w *world) changeRecord() string {
	ref, _ := ipam.ParsePodRef(w.ref())
	name := "orphan-" + ref.Namespace + "-" + ref.Name
	var pod corev1.Pod
	if w.whole.client.Get(w.t.Context(), types.NamespacedName(ref), &pod) == nil {
		name = string(pod.UID)
	}
	var before v1alpha1.IPAllocation
	had := w.whole.client.Get(w.t.Context(), types.NamespacedName{Name: name}, &before) == nil
	if had && w.rand.IntN(2) == 0 {
		w.put(&before, nil)
		return "deleted record " + name
	}
	after := before.DeepCopy()
	after.Name = name
	after.Spec = v1alpha1.IPAllocationSpec{PodNamespace: ref.Namespace, PodName: ref.Name, Sandboxes: []v1alpha1.SandboxRecord{{ID: w.sandbox()}},
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", IP: w.ip().String()}}}
	if !had {
		w.put(nil, after)
	} else {
		w.put(&before, after)
	}
	return fmt.Sprint("wrote record ", name, after.Spec)
}

func (w *world) changeLooks() string {
	if id := w.sandbox(); w.scheduled.Has(id) {
		w.scheduled.Delete(id)
	} else {
		w.scheduled.Insert(id)
	}
	return fmt.Sprint("scheduled ", w.scheduled)
}

// changeAll changes what every finding may depend on.
func (w *world) changeAll() string {
	switch w.rand.IntN(3) {
	case 0:
		w.divided = dividedFor([]string{"node-a", "node-b", ""}[w.rand.IntN(3)])
		return "divided the range anew"
	case 1:
		if delete(w.broken, worldPools[2]); w.rand.IntN(2) == 0 {
			w.broken[worldPools[2]] = ipam.Problem{Pool: worldPools[2]}
		}
		w.following.poolChanged(ipam.Event{Pools: true})
		return fmt.Sprint("broke ", w.broken)
	default:
		var before nadv1.NetworkAttachmentDefinition
		w.check(w.whole.client.Get(w.t.Context(), types.NamespacedName{Namespace: "ns", Name: "wb"}, &before))
		after := before.DeepCopy()
		after.Spec.Config = []string{`{"type":"macvlan","ipam":{"type":"whereabouts"}}`, `{"type":"macvlan","ipam":{"type":"whereabouts"},"name":"unreserved"}`}[w.rand.IntN(2)]
		w.put(&before, after)
		return "configured " + after.Spec.Config
	}
}

func (w *world) changeDoubt() string {
	if ref := w.ref(); w.broken[ref].PodRef == "" {
		w.broken[ref] = ipam.Problem{Pool: worldPools[0], Offset: "x", PodRef: ref}
	} else {
		delete(w.broken, ref)
	}
	for _, text := range worldRefs {
		ref, _ := ipam.ParsePodRef(text)
		w.following.poolChanged(ipam.Event{PodRefs: []ipam.PodRef{ref}})
	}
	return fmt.Sprint("doubtful ", w.broken)
}

func (w *world) step() string {
	switch n := w.rand.IntN(40); {
	case n < 12:
		return w.changeEntry()
	case n < 20:
		return w.changeReservation()
	case n < 29:
		return w.changePod()
	case n < 34:
		return w.changeRecord()
	case n < 38:
		return w.changeLooks()
	case n < 39:
		return w.changeDoubt()
	default:
		return w.changeAll()
	}
}

func identities(a *auditor) map[ipamaudit.Finding]ipamaudit.Finding {
	all := map[ipamaudit.Finding]ipamaudit.Finding{}
	for _, k := range a.known {
		all[k.Identity()] = k.Finding
	}
	return all
}

// An audit of what changed knows what an audit of everything knows.
func TestAnAuditOfChangesFindsWhatAnAuditOfEverythingFinds(t *testing.T) {
	kinds := map[v1alpha1.Reason]int{}
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		w.check(w.following.compare(t.Context()))
		var history []string
		partial := 0
		for range 80 {
			for range 1 + w.rand.IntN(3) {
				history = append(history, w.step())
			}
			before := w.fulls
			w.check(w.following.compare(t.Context()))
			if w.fulls == before {
				partial++
			}
			w.check(w.whole.compare(t.Context()))
			got, want := identities(w.following), identities(w.whole)
			if !maps.EqualFunc(got, want, ipamaudit.Finding.IsSame) {
				t.Fatalf("seed %d: after %q\nan audit of the changes knows %+v\n, one of everything %+v", seed, history, got, want)
			}
			for _, f := range want {
				kinds[f.Kind]++
			}
		}
		if partial < 40 {
			t.Errorf("seed %d: %d of 80 audits were about changes alone, want most", seed, partial)
		}
	}
	for _, kind := range ipamaudit.Kinds {
		if kinds[kind] == 0 {
			t.Errorf("no %s was ever found: %v", kind, kinds)
		}
	}
}
