// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
)

// flaky makes writes of a record's status, and cached lists of records, fail while these say so.
type flaky struct{ write, list func() bool }

func (f flaky) over(t *testing.T, a *auditor) {
	t.Helper()
	a.client = interceptor.NewClient(a.client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if f.write != nil && f.write() {
				return errors.New("no write")
			}
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, records := list.(*v1alpha1.IPAllocationList); records && f.list != nil && f.list() {
				return errors.New("no list")
			}
			return c.List(ctx, list, options...)
		},
	})
}

// The repair itself ends the finding: its report must not be lost with it.
func TestALineAboutARepairIsSaidOnceItCanBe(t *testing.T) {
	pool := &auditedPool{}
	pool.set(true, entryOfWeb())
	a, events := repairing(t, pool, nil)
	failing := true
	flaky{write: func() bool { return failing }}.over(t, a)
	if errs := audits(t, a, 4); len(errs) != 3 {
		t.Errorf("%d audits of 4 failed, want the one that repaired and both after it: %v", len(errs), errs)
	}
	if len(a.known) > 0 || len(pool.wrote) != 1 {
		t.Fatalf("known %v, wrote %v: the case proves nothing", a.known, pool.wrote)
	}
	if got := linesOf(t, a); len(got) > 0 {
		t.Fatalf("the record has %v", got)
	}
	failing = false
	if errs := audits(t, a, 2); len(errs) > 0 {
		t.Errorf("errors once it could be written: %v", errs)
	}
	if got := linesOf(t, a); !slices.Equal(got, []string{"ReservationMissing Repaired"}) {
		t.Errorf("the record has %v", got)
	}
	if got := reasonsOf(events()); !slices.Equal(got, []string{"ReservationMissing", "ReservationCreated"}) {
		t.Errorf("events %v", got)
	}
}

// An audit that cannot read the pools can still say what was done.
func TestALineIsSaidByAnAuditThatFails(t *testing.T) {
	pool := &auditedPool{}
	pool.set(true, entryOfWeb())
	a, _ := repairing(t, pool, nil)
	failing := true
	flaky{write: func() bool { return failing }}.over(t, a)
	audits(t, a, 2)
	failing, pool.unsynced = false, true
	if errs := audits(t, a, 1); len(errs) > 0 {
		t.Error(errs)
	}
	if got := linesOf(t, a); !slices.Equal(got, []string{"ReservationMissing Repaired"}) {
		t.Errorf("the record has %v", got)
	}
}

// onceUnread fails one read of a pod: the one of that number.
type onceUnread struct {
	client.Reader
	reads, at int
}

func (o *onceUnread) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, pod := object.(*corev1.Pod); pod {
		if o.reads++; o.reads == o.at {
			return errors.New("no read")
		}
	}
	return o.Reader.Get(ctx, key, object, options...)
}

// A call that failed for a moment is neither an event nor a line, whichever call it is: both would stay.
func TestAReadThatFailsOnceIsNoNews(t *testing.T) {
	for name, tc := range map[string]struct {
		reservations []ipam.Reservation
		line         string
	}{
		"a reservation that is missing":             {nil, "ReservationMissing Repaired"},
		"a reservation of another pod, which lives": {reserved("ns/db"), "ReservationForeign Held"},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 1; ; at++ {
				pool := &auditedPool{reservations: tc.reservations}
				pool.set(true, entryOfWeb())
				a, events := repairing(t, pool, nil, otherPod("db", "10.0.0.9"))
				once := &onceUnread{Reader: a.live, at: at}
				a.live = once
				errs := audits(t, a, 5)
				a.live = once.Reader
				if once.reads < at {
					if at < 3 {
						t.Fatalf("only %d reads: the case proves nothing", once.reads)
					}
					return
				}
				if got := linesOf(t, a); len(errs) != 1 || !slices.Equal(got, []string{tc.line}) {
					t.Errorf("read %d failing: errors %v, lines %v, events %v; want one error and %q", at, errs, got, events(), tc.line)
				}
			}
		})
	}
}

func findingOfWeb() ipamaudit.Finding {
	return ipamaudit.Finding{Kind: v1alpha1.ReasonReservationMissing, PodRef: "ns/web", UID: "web-uid", IP: entryOfWeb().IP}
}

// leaveUnreported adds a line that was not written.
func leaveUnreported(a *auditor, f ipamaudit.Finding, result v1alpha1.RepairResult) {
	a.unreported.add(unreported{finding: f, line: a.lineOf(f, outcome{result: result, message: string(result)})})
}

// Only the first of two writes fails: the other waits behind it.
func TestLinesAreSaidInTheirOrder(t *testing.T) {
	a, _ := repairing(t, &auditedPool{}, nil)
	leaveUnreported(a, findingOfWeb(), v1alpha1.RepairHeld)
	leaveUnreported(a, findingOfWeb(), v1alpha1.RepairRepaired)
	first := true
	flaky{write: func() bool { defer func() { first = false }(); return first }}.over(t, a)
	if err := a.writeUnreported(t.Context()); err == nil || len(a.unreported) != 2 {
		t.Errorf("%d lines wait after error %v, want both", len(a.unreported), err)
	}
	if err := a.writeUnreported(t.Context()); err != nil || len(a.unreported) != 0 {
		t.Errorf("%d lines wait after error %v, want none", len(a.unreported), err)
	}
	if got := linesOf(t, a); !slices.Equal(got, []string{"ReservationMissing Held", "ReservationMissing Repaired"}) {
		t.Errorf("the record has %v", got)
	}
}

// One record that cannot be written keeps no line from another, and gets its own later; no record gets one twice.
func TestALineIsLeftForTheRecordsThatDoNotHaveIt(t *testing.T) {
	address := []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/p", IP: "10.0.0.1"}}
	named := func(name string) *v1alpha1.IPAllocation {
		return &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.IPAllocationSpec{Addresses: address}}
	}
	a, _ := repairing(t, &auditedPool{}, nil, named("a-uid"), named("b-uid"))
	unowned := ipamaudit.Finding{Kind: v1alpha1.ReasonReservationOrphaned, Pool: "kube-system/p", IP: entryOfWeb().IP}
	leaveUnreported(a, unowned, v1alpha1.RepairHeld)
	writes, unlisted := 0, true
	flaky{write: func() bool { writes++; return writes == 1 }, list: func() bool { return unlisted }}.over(t, a)
	if err := a.writeUnreported(t.Context()); err == nil || len(a.unreported) != 1 {
		t.Errorf("%d lines wait after error %v, want the one whose records could not be looked for", len(a.unreported), err)
	}
	unlisted = false
	if err := a.writeUnreported(t.Context()); err == nil || len(a.unreported) != 1 || len(a.unreported[0].records) != 1 {
		t.Fatalf("%v waits after error %v, want one record", a.unreported, err)
	}
	if err := a.writeUnreported(t.Context()); err != nil || len(a.unreported) != 0 || writes != 3 {
		t.Errorf("%v waits after error %v and %d writes", a.unreported, err, writes)
	}
	for _, name := range []string{"a-uid", "b-uid"} {
		var record v1alpha1.IPAllocation
		if err := a.live.Get(t.Context(), types.NamespacedName{Name: name}, &record); err != nil || len(record.Status.Repairs) != 1 {
			t.Errorf("record %s has %d lines (%v), want one", name, len(record.Status.Repairs), err)
		}
	}
}

func TestLinesForRecordsThatAreGoneAreForgotten(t *testing.T) {
	a, _ := repairing(t, &auditedPool{}, nil)
	gone := findingOfWeb()
	gone.UID = "gone-uid"
	leaveUnreported(a, gone, v1alpha1.RepairRepaired)
	if err := a.writeUnreported(t.Context()); err != nil || len(a.unreported) != 0 {
		t.Errorf("%d lines wait after error %v", len(a.unreported), err)
	}
}

func TestUnreportedLinesAreBounded(t *testing.T) {
	a, _ := repairing(t, &auditedPool{}, nil)
	for i := range maxUnreported + 5 {
		f := findingOfWeb()
		f.PodRef = fmt.Sprint("ns/web-", i)
		leaveUnreported(a, f, v1alpha1.RepairRepaired)
	}
	if len(a.unreported) != maxUnreported || a.unreported[0].finding.PodRef != "ns/web-5" {
		t.Errorf("%d lines, the first about %s; want %d, the newest", len(a.unreported), a.unreported[0].finding.PodRef, maxUnreported)
	}
}
