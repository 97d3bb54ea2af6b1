// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

// auditedPool is a backend whose cache may differ from what the API server has.
type auditedPool struct {
	ipam.Repairable // what no audit calls
	entries         []ipam.Entry
	live            []ipam.Entry
	liveErr         error
	reservations    []ipam.Reservation
	unsynced        bool
	problems        []ipam.Problem
	// divided are the slices; slicedBy is the object that divides the network "ns/wb".
	divided  []*ipam.SlicePool
	slicedBy string
	// writeErr is the result of every write; wrote are those that were made.
	writeErr error
	wrote    []string
}

// dividedFor is a divided range of which the node has a slice.
func dividedFor(node string) []*ipam.SlicePool {
	return []*ipam.SlicePool{{Namespace: "kube-system", Name: "wb", Slices: []ipam.Slice{{Range: "10.0.0.0/26", Node: node}}}}
}

func (p *auditedPool) Name() string                                 { return "whereabouts" }
func (p *auditedPool) Manages(podnetwork.IPAM) bool                 { return true }
func (p *auditedPool) PoolReference(string) *corev1.ObjectReference { return &corev1.ObjectReference{} }
func (p *auditedPool) All() ipam.Snapshot                           { return ipam.Snapshot{Entries: slices.Clone(p.entries)} }
func (p *auditedPool) SlicePool(config, _ string) string {
	if strings.Contains(config, "whereabouts") {
		return p.slicedBy
	}
	return ""
}
func (p *auditedPool) Ranges(string) []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
}
func (p *auditedPool) SlicePools(context.Context) ([]*ipam.SlicePool, error) {
	return p.divided, nil
}
func (p *auditedPool) NodeOf(pool string, _ *ipam.SlicePool, slice ipam.Slice, known func(string) bool) string {
	node := strings.TrimSuffix(strings.TrimPrefix(pool, "kube-system/"), "-"+strings.ReplaceAll(slice.Range, "/", "-"))
	if known(node) {
		return node
	}
	return ""
}
func (p *auditedPool) ReservationAddresses(name string) []netip.Addr {
	return whereabouts.New(whereabouts.Options{}).ReservationAddresses(name)
}
func (p *auditedPool) SameReservation(x, y string) bool { return x == y }
func (p *auditedPool) ReservationName(at ipam.Attachment) (string, error) {
	return "kube-system/" + at.IP.String(), nil
}
func (p *auditedPool) CreateReservation(_ context.Context, r ipam.Reservation) error {
	p.wrote = append(p.wrote, "create "+r.Name+" for "+r.PodRef+" "+r.Interface)
	if p.writeErr == nil {
		p.reservations = append(p.reservations, r)
	}
	return p.writeErr
}
func (p *auditedPool) GiveReservation(_ context.Context, r ipam.Reservation, podRef, iface string) error {
	p.wrote = append(p.wrote, "give "+r.Name+" of "+r.PodRef+" to "+podRef+" "+iface)
	for i := range p.reservations {
		if p.writeErr == nil && p.reservations[i].Name == r.Name {
			p.reservations[i].PodRef, p.reservations[i].Interface = podRef, iface
		}
	}
	return p.writeErr
}
func (p *auditedPool) DeleteReservation(_ context.Context, r ipam.Reservation) error {
	p.wrote = append(p.wrote, "delete "+r.Name+" of "+r.PodRef)
	if p.writeErr == nil {
		p.reservations = slices.DeleteFunc(p.reservations, func(other ipam.Reservation) bool { return other.Name == r.Name })
	}
	return p.writeErr
}

func (p *auditedPool) HasSynced() bool { return !p.unsynced }
func (p *auditedPool) Live(context.Context, ipam.Query) (ipam.Snapshot, error) {
	return ipam.Snapshot{Entries: p.live, Problems: p.problems}, p.liveErr
}
func (p *auditedPool) Reservations(context.Context) ([]ipam.Reservation, error) {
	return p.reservations, nil
}
func (p *auditedPool) Find(ipam.Query) ipam.Snapshot { return ipam.Snapshot{} }
func (p *auditedPool) ReservationNames(e *ipam.Entry) []string {
	return []string{"kube-system/" + e.IP.String()}
}
func (p *auditedPool) ReservationReference(string) *corev1.ObjectReference {
	return &corev1.ObjectReference{}
}
func (p *auditedPool) Reserves(string) bool { return true }
func (p *auditedPool) Covers(ip netip.Addr) bool {
	return netip.MustParsePrefix("10.0.0.0/24").Contains(ip)
}
func (p *auditedPool) set(live bool, e ipam.Entry) {
	p.entries, p.live = []ipam.Entry{e}, nil
	p.also(live, e)
}
func (p *auditedPool) also(live bool, e ipam.Entry) {
	if live {
		p.live = []ipam.Entry{e}
	}
}

const (
	auditedStatus = `[{"name":"ns/wb","interface":"net1","ips":["10.0.0.1"]},{"name":"ns/static","interface":"net2","ips":["10.0.0.9"]}]`
	// auditedDelay is the time that a finding must have stood.
	auditedDelay = time.Minute
)

// audited is a running pod of a whereabouts network, and of one of another IPAM, with an auditor that sees it.
func audited(t testing.TB, pool *auditedPool, change func(*corev1.Pod)) (*auditor, *clocktesting.FakePassiveClock, *events.FakeRecorder) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web-uid", Finalizers: []string{v1alpha1.Finalizer},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "wb,static", nadv1.NetworkStatusAnnot: auditedStatus}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(pod)
	}
	network := func(name, config string) *nadv1.NetworkAttachmentDefinition {
		return &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, i := range index.All {
		builder.WithIndex(i.Object, i.Field, i.Keys)
	}
	cluster := builder.WithObjects(pod,
		network("wb", `{"type":"macvlan","ipam":{"type":"whereabouts"}}`)).
		WithStatusSubresource(&v1alpha1.IPAllocation{}).
		WithIndex(&v1alpha1.IPAllocation{}, "spec.podNamespace", func(o client.Object) []string { return []string{o.(*v1alpha1.IPAllocation).Spec.PodNamespace} }).
		WithIndex(&v1alpha1.IPAllocation{}, "spec.podName", func(o client.Object) []string { return []string{o.(*v1alpha1.IPAllocation).Spec.PodName} }).
		Build()
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	recorder := events.NewFakeRecorder(1000) // blocks once it is full
	o := Options{ReleaseDelay: auditedDelay, Scheduled: func() []string { return nil },
		Pod: func(_ context.Context, pod *corev1.Pod) release.Pod {
			return release.Pod{Ending: release.EvidenceKubelet.Ending(pod, pod.Labels[seenAlive] != "", time.Time{}), Begun: release.Begun(pod),
				EndedBy: release.Absent[release.Machine](), EndWritten: release.EndWritten(pod)}
		},
		Node: func(ctx context.Context, name string) release.Fact[release.Node] {
			var node corev1.Node
			if cluster.Get(ctx, client.ObjectKey{Name: name}, &node) != nil {
				return release.Absent[release.Node]()
			}
			return release.Known(release.Node{Machine: release.Machine{NodeUID: node.UID}, Registered: node.CreationTimestamp.Time})
		},
	}
	a := newAuditor(cluster, cluster, pool, recorder, clock, o)
	a.informers = &informertest.FakeInformers{Error: errors.New("nothing is followed")}
	return a, clock, recorder
}

// seenAlive labels a pod that was seen alive while it was being deleted.
const seenAlive = "seen-alive"

func entryOfWeb() ipam.Entry {
	return ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/10.0.0.0-24", IP: netip.MustParseAddr("10.0.0.1"),
		SandboxID: "sb", PodRef: "ns/web", Interface: "net1"}}
}

func drained(r *events.FakeRecorder) (all []string) {
	for {
		select {
		case e := <-r.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func TestAuditReportsWhatStandsLive(t *testing.T) {
	reserved := []ipam.Reservation{{Name: "kube-system/10.0.0.1", PodRef: "ns/web", Interface: "net1"}}
	for name, test := range map[string]struct {
		prepare func(*auditedPool)
		pod     func(*corev1.Pod)
		want    v1alpha1.Reason
		err     bool
	}{
		"an address that no pool has":         {want: v1alpha1.ReasonEntryMissing},
		"an address in order":                 {prepare: func(p *auditedPool) { p.set(true, entryOfWeb()); p.reservations = reserved }},
		"an entry without a reservation":      {prepare: func(p *auditedPool) { p.set(true, entryOfWeb()) }, want: v1alpha1.ReasonReservationMissing},
		"an entry that the cache has not yet": {prepare: func(p *auditedPool) { p.also(true, entryOfWeb()); p.reservations = reserved }},
		"pools that cannot be read live":      {prepare: func(p *auditedPool) { p.liveErr = errors.New("no") }, err: true},
		"pools whose first list is not there": {prepare: func(p *auditedPool) { p.unsynced = true }},
		"a pod that is being deleted":         {pod: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }},
		"a pod that has ended":                {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		"an address of no pool's range": {pod: func(p *corev1.Pod) {
			p.Annotations[nadv1.NetworkStatusAnnot] = strings.ReplaceAll(auditedStatus, "10.0.0.1", "10.0.1.1")
		}},
		"a network whose definition is gone": {pod: func(p *corev1.Pod) {
			p.Annotations[nadv1.NetworkStatusAnnot] = strings.ReplaceAll(auditedStatus, "ns/wb", "ns/gone")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &auditedPool{}
			if test.prepare != nil {
				test.prepare(pool)
			}
			a, clock, recorder := audited(t, pool, test.pod)
			if err := a.audit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := drained(recorder); len(got) > 0 {
				t.Errorf("reported before it stood for %s: %q", auditedDelay, got)
			}
			clock.SetTime(clock.Now().Add(auditedDelay))
			if err := a.audit(t.Context()); (err != nil) != test.err {
				t.Fatalf("error: %v, expected one: %t", err, test.err)
			}
			got := drained(recorder)
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], string(test.want))) {
				t.Errorf("reported %q, expected one about %q", got, test.want)
			}
		})
	}
}

func TestAuditReportsOnceAndTakesBack(t *testing.T) {
	pool := &auditedPool{}
	a, clock, recorder := audited(t, pool, nil)
	standing := func() float64 {
		return series.Value(t, metrics.Prefix+"ipam_inconsistencies", string(v1alpha1.ReasonEntryMissing))
	}
	for range 4 {
		if err := a.audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(auditedDelay))
	}
	if got := drained(recorder); len(got) != 1 || standing() != 1 {
		t.Errorf("reported %q, and the metric is %v; expected one event, and 1", got, standing())
	}
	pool.set(true, entryOfWeb())
	pool.reservations = []ipam.Reservation{{Name: "kube-system/10.0.0.1", PodRef: "ns/web", Interface: "net1"}}
	if err := a.audit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := drained(recorder); len(got) != 0 || standing() != 0 || len(a.known) != 0 {
		t.Errorf("once it is in order: reported %q, the metric is %v, %d are known", got, standing(), len(a.known))
	}
}

// The audit never writes: a client that only reads will do.
func TestAuditWritesNothing(t *testing.T) {
	pool := &auditedPool{}
	pool.set(true, entryOfWeb())
	a, clock, recorder := audited(t, pool, nil)
	a.client = readOnly{a.client}
	for range 2 {
		if err := a.audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(auditedDelay))
	}
	if got := drained(recorder); len(got) != 1 || len(pool.wrote) != 0 || !slices.Equal(pool.entries, []ipam.Entry{entryOfWeb()}) {
		t.Errorf("reported %q, wrote %v", got, pool.wrote)
	}
}

// readOnly panics on every write.
type readOnly struct{ client.Client }

func (readOnly) Create(context.Context, client.Object, ...client.CreateOption) error {
	panic("a write")
}
func (readOnly) Update(context.Context, client.Object, ...client.UpdateOption) error {
	panic("a write")
}
func (readOnly) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	panic("a write")
}
func (readOnly) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	panic("a write")
}
