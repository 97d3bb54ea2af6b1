// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// auditsTimeout bounds the audits of a case: the writes of one that repairs too much wait for the limiter.
const auditsTimeout = 10 * time.Second

// audits runs n audits, each the release delay after the one before.
func audits(t *testing.T, a *auditor, n int) (errs []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), auditsTimeout)
	defer cancel()
	clock := a.clock.(interface{ SetTime(time.Time) })
	for range n {
		if err := a.audit(ctx); err != nil {
			errs = append(errs, err)
		}
		clock.SetTime(a.clock.Now().Add(auditedDelay))
	}
	return errs
}

// repairing is an auditor that repairs, over a running pod that shows 10.0.0.1, and the record of it.
func repairing(t *testing.T, pool *auditedPool, change func(*corev1.Pod), more ...client.Object) (*auditor, func() []string) {
	t.Helper()
	a, _, recorder := audited(t, pool, change)
	a.options.Repair = true
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "web-uid"}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "ns", PodName: "web"}}
	for _, object := range append(more, record) {
		if err := a.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return a, func() []string { return drained(recorder) }
}

// elsewhere has the pod show another address.
func elsewhere(pod *corev1.Pod) {
	pod.Annotations[nadv1.NetworkStatusAnnot] = strings.ReplaceAll(auditedStatus, "10.0.0.1", "10.0.0.7")
}

func reserved(podRef string) []ipam.Reservation {
	return []ipam.Reservation{{Name: "kube-system/10.0.0.1", PodRef: podRef, Interface: "net1", UID: "r", ResourceVersion: "1"}}
}

// otherPod shows an address too.
func otherPod(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), Finalizers: []string{v1alpha1.Finalizer}, Annotations: map[string]string{
			nadv1.NetworkAttachmentAnnot: "wb", nadv1.NetworkStatusAnnot: fmt.Sprintf(`[{"name":"ns/wb","interface":"net1","ips":[%q]}]`, ip)}},
		Status: corev1.PodStatus{Phase: corev1.PodPending}, // so that no finding is about it
	}
}

func TestRepair(t *testing.T) {
	entry := func(p *auditedPool) { p.set(true, entryOfWeb()) }
	inOrder := func(p *auditedPool) { // an entry and a reservation for the address that the pod shows elsewhere
		e := entryOfWeb()
		e.IP = e.IP.Next().Next().Next().Next().Next().Next()
		p.set(true, e)
		p.reservations = []ipam.Reservation{{Name: "kube-system/10.0.0.7", PodRef: "ns/web", Interface: "net1"}}
	}
	for name, test := range map[string]struct {
		prepare []func(*auditedPool)
		pod     func(*corev1.Pod)
		objects []client.Object
		want    []string
		events  []string
		lines   []string
		err     bool
	}{
		"an entry without a reservation gets one": {
			prepare: []func(*auditedPool){entry},
			want:    []string{"create kube-system/10.0.0.1 for ns/web net1"},
			events:  []string{"ReservationMissing", "ReservationCreated"}, lines: []string{"ReservationMissing Repaired"},
		},
		"a reservation of a pod that is gone is given to the pod": {
			prepare: []func(*auditedPool){entry, func(p *auditedPool) { p.reservations = reserved("ns/gone") }},
			want:    []string{"give kube-system/10.0.0.1 of ns/gone to ns/web net1"},
			events:  []string{"ReservationForeign", "ReservationGiven"}, lines: []string{"ReservationForeign Repaired"},
		},
		"a reservation of a pod that lives stays": {
			prepare: []func(*auditedPool){entry, func(p *auditedPool) { p.reservations = reserved("ns/db") }},
			objects: []client.Object{otherPod("db", "10.0.0.9")},
			events:  []string{"ReservationForeign", "RepairHeld"}, lines: []string{"ReservationForeign Held"},
		},
		"a reservation for nothing is marked first, and removed then": {
			prepare: []func(*auditedPool){inOrder, func(p *auditedPool) { p.reservations = append(p.reservations, reserved("ns/gone")...) }}, pod: elsewhere,
			want:   []string{"give kube-system/10.0.0.1 of ns/gone to holdfast-releasing/ns.gone net1", "delete kube-system/10.0.0.1 of holdfast-releasing/ns.gone"},
			events: []string{"ReservationOrphaned", "ReservationMarked", "ReservationDeleted"},
		},
		"a reservation for nothing, whose address an unguarded pod shows": {
			prepare: []func(*auditedPool){inOrder, func(p *auditedPool) { p.reservations = append(p.reservations, reserved("ns/gone")...) }}, pod: elsewhere,
			objects: []client.Object{otherPod("db", "10.0.0.1")},
			events:  []string{"ReservationOrphaned", "RepairHeld"},
		},
		"a reservation for nothing, whose address a record has": {
			prepare: []func(*auditedPool){inOrder, func(p *auditedPool) { p.reservations = append(p.reservations, reserved("ns/gone")...) }}, pod: elsewhere,
			objects: []client.Object{&v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "gone-uid"},
				Spec: v1alpha1.IPAllocationSpec{PodNamespace: "ns", PodName: "gone", Addresses: []v1alpha1.AddressRecord{{Pool: "kube-system/p", IP: "10.0.0.1"}}}}},
			events: []string{"ReservationOrphaned", "RepairHeld"},
		},
		"I2: a reservation for nothing, under the name of a pod that has another address, and a record of it": {
			prepare: []func(*auditedPool){inOrder, func(p *auditedPool) { p.reservations = append(p.reservations, reserved("ns/web")...) }}, pod: elsewhere,
			want:   []string{"give kube-system/10.0.0.1 of ns/web to holdfast-releasing/ns.web net1", "delete kube-system/10.0.0.1 of holdfast-releasing/ns.web"},
			events: []string{"ReservationOrphaned", "ReservationMarked", "ReservationDeleted"},
		},
		"a reservation that has the name of a pod which shows the address in a deleted network": {
			prepare: []func(*auditedPool){inOrder, func(p *auditedPool) { p.reservations = append(p.reservations, reserved("ns/web")...) }}, pod: func(pod *corev1.Pod) {
				elsewhere(pod)
				pod.Annotations[nadv1.NetworkStatusAnnot] = `[{"name":"ns/wb","interface":"net1","ips":["10.0.0.7"]},{"name":"ns/gone","interface":"net2","ips":["10.0.0.1"]}]`
			},
			events: []string{"ReservationOrphaned", "RepairHeld"},
		},
		"a reservation for nothing, and a pod of that name that no record is of": {
			prepare: []func(*auditedPool){inOrder, func(p *auditedPool) { p.reservations = append(p.reservations, reserved("ns/db")...) }}, pod: elsewhere,
			objects: []client.Object{otherPod("db", "10.0.0.9")},
			events:  []string{"ReservationOrphaned", "RepairHeld"},
		},
		"an address that no pool has is reserved, and reported": {
			prepare: []func(*auditedPool){func(*auditedPool) {}},
			want:    []string{"create kube-system/10.0.0.1 for ns/web net1"},
			events:  []string{"EntryMissing", "ReservationCreated"}, lines: []string{"EntryMissing Repaired", "EntryMissing Reported"},
		},
		"an address that no pool has, and that is reserved": {
			prepare: []func(*auditedPool){func(p *auditedPool) { p.reservations = reserved("ns/web") }},
			events:  []string{"EntryMissing"}, lines: []string{"EntryMissing Reported"},
		},
		"a reservation that changed in between is no failure": {
			prepare: []func(*auditedPool){entry, func(p *auditedPool) { p.writeErr = ipam.ErrChanged }},
			want:    slices.Repeat([]string{"create kube-system/10.0.0.1 for ns/web net1"}, 4),
			events:  []string{"ReservationMissing"},
		},
		"a write that fails is reported once, and tried again": {
			prepare: []func(*auditedPool){entry, func(p *auditedPool) { p.writeErr = errors.New("no") }},
			want:    slices.Repeat([]string{"create kube-system/10.0.0.1 for ns/web net1"}, 4), err: true,
			events: []string{"ReservationMissing", "RepairFailed"}, lines: []string{"ReservationMissing Failed"},
		},
		"pools of which one cannot be read": {
			prepare: []func(*auditedPool){entry, func(p *auditedPool) {
				p.problems = []ipam.Problem{{Pool: "kube-system/p", PodRef: "ns/other", Offset: "x"}}
			}},
			events: []string{"ReservationMissing", "RepairHeld"}, lines: []string{"ReservationMissing Held"},
		},
		"an entry in the pool of a node whose slice moved is reported": {
			prepare: []func(*auditedPool){func(p *auditedPool) {
				e := entryOfWeb()
				e.Pool = "kube-system/node-a-10.0.0.0-26"
				p.set(true, e)
				p.reservations = reserved("ns/web")
				p.divided = dividedFor("node-b")
			}},
			objects: []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}},
			events:  []string{"SliceMoved"}, lines: []string{"SliceMoved Reported"},
		},
		"a pod on a node without a slice is reported": {
			prepare: []func(*auditedPool){entry, func(p *auditedPool) {
				p.reservations, p.slicedBy = reserved("ns/web"), "wb"
				p.divided = dividedFor("node-b")
			}},
			pod: func(pod *corev1.Pod) {
				pod.Spec.NodeName = "node-a"
				pod.Annotations[nadv1.NetworkAttachmentAnnot] = "wb"
			},
			events: []string{"PodWithoutSlice"}, lines: []string{"PodWithoutSlice Reported"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &auditedPool{}
			for _, prepare := range test.prepare {
				prepare(pool)
			}
			a, events := repairing(t, pool, test.pod, test.objects...)
			if errs := audits(t, a, 5); (len(errs) > 0) != test.err {
				t.Errorf("errors: %v", errs)
			}
			if diff := cmp.Diff(test.want, pool.wrote); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, reasonsOf(events())); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.lines, linesOf(t, a)); diff != "" {
				t.Errorf("lines of the record (-want +got):\n%s", diff)
			}
		})
	}
}

// reasonsOf are the reasons of events, their second field.
func reasonsOf(events []string) (reasons []string) {
	for _, e := range events {
		reasons = append(reasons, strings.Fields(e)[1])
	}
	return reasons
}

func linesOf(t *testing.T, a *auditor) (lines []string) {
	t.Helper()
	var record v1alpha1.IPAllocation
	if err := a.live.Get(t.Context(), types.NamespacedName{Name: "web-uid"}, &record); err != nil {
		t.Fatal(err)
	}
	for _, line := range record.Status.Repairs {
		lines = append(lines, line.Kind+" "+string(line.Result))
	}
	return lines
}

func TestModeReportWritesNothing(t *testing.T) {
	pool := &auditedPool{}
	pool.set(true, entryOfWeb())
	a, events := repairing(t, pool, nil)
	a.options.Repair = false
	if errs := audits(t, a, 4); len(errs) > 0 {
		t.Error(errs)
	}
	if got := reasonsOf(events()); len(pool.wrote) > 0 || !slices.Equal(got, []string{"ReservationMissing"}) {
		t.Errorf("wrote %v, reported %v", pool.wrote, got)
	}
	if got := linesOf(t, a); !slices.Equal(got, []string{"ReservationMissing Reported"}) {
		t.Errorf("the record has %v", got)
	}
}

// A fact that could not be read holds, for any values of the others.
func TestRepairHoldsWhatCannotBeRead(t *testing.T) {
	isPods := func(o client.ObjectList) bool { _, ok := o.(*metav1.PartialObjectMetadataList); return ok }
	isRecords := func(o client.ObjectList) bool { _, ok := o.(*v1alpha1.IPAllocationList); return ok }
	for name, fail := range map[string]func(client.ObjectList) bool{"the pods": isPods, "the records": isRecords} {
		for kind, test := range map[string]struct {
			entries bool
			writes  int
		}{"another pod's reservation": {true, 1}, "a reservation for nothing": {false, 2}} {
			t.Run(name+", and "+kind, func(t *testing.T) {
				pool := &auditedPool{reservations: reserved("ns/gone")}
				change := elsewhere
				if test.entries {
					pool.set(true, entryOfWeb())
					change = nil
				} else { // the pod's own address is in order
					e := entryOfWeb()
					e.IP = netip.MustParseAddr("10.0.0.7")
					pool.set(true, e)
					pool.reservations = append(pool.reservations, ipam.Reservation{Name: "kube-system/10.0.0.7", PodRef: "ns/web", Interface: "net1"})
				}
				a, _ := repairing(t, pool, change)
				readable := a.live
				a.live = unreadable{Reader: readable, fail: fail}
				if errs := audits(t, a, 4); len(errs) == 0 {
					t.Error("no audit failed while they could not be listed, so none was tried again")
				}
				if len(pool.wrote) > 0 {
					t.Errorf("wrote %v while they could not be listed", pool.wrote)
				}
				a.live = readable
				if errs := audits(t, a, 4); len(errs) > 0 {
					t.Errorf("errors once they could be listed: %v", errs)
				}
				if len(pool.wrote) != test.writes {
					t.Errorf("wrote %v once they could be listed", pool.wrote)
				}
			})
		}
	}
}

// A pod that its kubelet has finished shows an address that it does not use. Another machine's kubelet knows nothing of that.
func TestAFinishedPodIsNoUser(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	for name, tc := range map[string]struct {
		registered time.Time
		seen       bool
		kept       bool
		users      int
	}{
		"it was not seen alive while it was being deleted":    {registered: began, users: 1},
		"its kubelet has finished it":                         {registered: began, seen: true},
		"its kubelet ended it, and its object is kept (0279)": {registered: began, kept: true, users: 1},
		"its Node is younger than it: another's may have":     {registered: began.Add(time.Minute), seen: true, users: 1},
		"its Node is gone: which kubelet did is not known":    {seen: true, users: 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := repairing(t, &auditedPool{}, nil)
			pod := otherPod("done", "10.0.0.1")
			pod.CreationTimestamp, pod.Spec.NodeName = metav1.NewTime(began), "node-of-done"
			pod.DeletionTimestamp, pod.Status.Phase = new(metav1.Now()), corev1.PodSucceeded
			if tc.kept {
				pod.DeletionTimestamp = nil
			}
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: new(metav1.Now()),
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
			if !tc.registered.IsZero() {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-done", UID: "n", CreationTimestamp: metav1.NewTime(tc.registered)}}
				if err := a.client.Create(t.Context(), node); err != nil {
					t.Fatal(err)
				}
			}
			if tc.seen {
				pod.Labels = map[string]string{seenAlive: "true"}
			}
			ips := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			if got := len(a.usersOf(t.Context(), "kube-system/10.0.0.1", ips, release.Known([]*corev1.Pod{pod})).Get()); got != tc.users {
				t.Errorf("%d users, want %d", got, tc.users)
			}
		})
	}
}

// unreadable fails some lists.
type unreadable struct {
	client.Reader
	fail func(client.ObjectList) bool
}

func (u unreadable) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if u.fail(list) {
		return errors.New("no")
	}
	return u.Reader.List(ctx, list, options...)
}

func TestARecordRemembersTheNewestRepairs(t *testing.T) {
	a, _ := repairing(t, &auditedPool{}, nil)
	finding := ipamaudit.Finding{Kind: v1alpha1.ReasonReservationMissing, PodRef: "ns/web", UID: "web-uid", IP: entryOfWeb().IP}
	for i := range 3 * v1alpha1.MaxRepairs {
		o := outcome{result: v1alpha1.RepairHeld, message: fmt.Sprint("message ", i)}
		for range 2 { // a second time is no news
			a.unreported.add(unreported{finding: finding, line: a.lineOf(finding, o)})
			if err := a.writeUnreported(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var record v1alpha1.IPAllocation
	if err := a.live.Get(t.Context(), types.NamespacedName{Name: "web-uid"}, &record); err != nil {
		t.Fatal(err)
	}
	repairs := record.Status.Repairs
	if len(repairs) != v1alpha1.MaxRepairs || !strings.HasSuffix(repairs[len(repairs)-1].Message, fmt.Sprint("message ", 3*v1alpha1.MaxRepairs-1)) {
		t.Errorf("%d lines, the last is %v", len(repairs), repairs[len(repairs)-1])
	}
}

// TestAFindingThatIsHeldIsSoonLookedAtAgain: a CNI DEL took the entry and not the reservation. Others wait for the address, and the end of the pod that
// holds it changes no pool.
func TestAFindingThatIsHeldIsSoonLookedAtAgain(t *testing.T) {
	pool, own := &auditedPool{}, entryOfWeb()
	own.IP = netip.MustParseAddr("10.0.0.7")
	pool.set(true, own)
	pool.reservations = append(reserved("ns/gone"), ipam.Reservation{Name: "kube-system/10.0.0.7", PodRef: "ns/web", Interface: "net1"})
	a, _ := repairing(t, pool, elsewhere, otherPod("db", "10.0.0.1"))
	clock := a.clock.(interface{ SetTime(time.Time) })
	for _, test := range []struct {
		ago, want time.Duration
	}{{0, auditedDelay}, {heldSoon, auditInterval}} {
		clock.SetTime(a.clock.Now().Add(test.ago))
		if errs := audits(t, a, 3); errs != nil {
			t.Fatal(errs)
		}
		if got := a.interval(); got != test.want {
			t.Errorf("%s after the finding the next audit is in %s, expected in %s", test.ago, got, test.want)
		}
	}
}
