// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// book is an acknowledger, and the test makes its rounds.
type book struct {
	*bench
	t *testing.T
}

func newBook(t *testing.T) *book {
	b := &book{bench: newBench(t), t: t}
	if _, err := b.identity.fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// acknowledge gives the version that is written; empty if none is.
func (b *book) acknowledge(view uint64, pending ...handshake.Pending) string {
	b.t.Helper()
	_, before := b.api.count()
	if err := b.acknowledger.acknowledge(b.t.Context(), pending, view, b.clock.Now(), b.identity); err != nil {
		b.t.Fatal(err)
	}
	if _, after := b.api.count(); after == before {
		return ""
	}
	return b.api.lease.Annotations[v1alpha1.AcknowledgedVersionAnnotation]
}

// restore is what somebody puts in the place of what was written; zero takes it away.
func (b *book) restore(version int64) {
	b.api.lease = nil
	if version > 0 {
		b.api.lease = leaseAt(version)
	}
}

func leaseAt(at int64) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AcknowledgedVersionAnnotation: version(at),
		v1alpha1.AcknowledgedNodeUIDAnnotation: string(nodeUID), v1alpha1.AcknowledgedBootIDAnnotation: bootID}}}
}

var settledMark = handshake.Pending{After: 100, By: 110, Settled: true}

func TestALeaseThatWasDeletedIsWrittenAgain(t *testing.T) {
	b := newBook(t)
	if got := b.acknowledge(150, settledMark); got != "150" {
		t.Fatalf("acknowledged %q", got)
	}
	b.restore(0)
	if got := b.acknowledge(150, settledMark); got != "" {
		t.Fatal("the Lease is read in every round")
	}
	b.clock.Step(firstCheck)
	if got := b.acknowledge(160, settledMark); got != "160" {
		t.Errorf("acknowledged %q after the Lease was deleted", got)
	}
}

func TestTheLeaseIsReadEverLessOften(t *testing.T) {
	b := newBook(t)
	b.acknowledge(150, settledMark)
	reads := func() int {
		before := b.api.leaseReads
		for range 120 {
			b.clock.Step(time.Minute)
			b.acknowledge(150, settledMark)
		}
		return b.api.leaseReads - before
	}
	if first := reads(); first > 12 {
		t.Errorf("%d reads in two hours", first)
	}
	if later := reads(); later != int(2*time.Hour/lastCheck) {
		t.Errorf("%d reads in the next two hours", later)
	}
}

func TestARestorationOfEtcdIsNoticed(t *testing.T) {
	b := newBook(t)
	b.acknowledge(9000, settledMark)
	for range 10 { // until the Lease is read as rarely as it ever is
		b.clock.Step(lastCheck)
		b.acknowledge(9000, settledMark)
	}
	b.restore(60)
	// The view is of the new history, and so is the mark.
	again := handshake.Pending{After: 0, By: 80, Settled: true}
	if got := b.acknowledge(90, again); got != "" {
		t.Fatal("a view that is late for a moment is no restoration")
	}
	b.clock.Step(firstCheck)
	if got := b.acknowledge(95, again); got != "95" {
		t.Errorf("acknowledged %q", got)
	}
}

func TestWhatWasAcknowledgedBeforeARestorationSettlesNothing(t *testing.T) {
	b := newBook(t)
	b.acknowledge(9000, settledMark)
	b.restore(60)
	// Before the agent looked again, so much was written that its view is ahead of what it acknowledged.
	open := handshake.Pending{After: 0, By: 8000}
	if got := b.acknowledge(9500, open, handshake.Pending{After: 9100, By: 9200, Settled: true}); got != "" {
		t.Errorf("acknowledged %s over an open mark of version 8000", got)
	}
}

func TestWhatAnotherAgentAcknowledgedMeanwhileStands(t *testing.T) {
	b := newBook(t)
	b.acknowledge(150, settledMark)
	b.restore(400)
	if got := b.acknowledge(300, settledMark, handshake.Pending{After: 150, By: 200, Settled: true}); got != "" {
		t.Errorf("acknowledged %s after 400", got)
	}
}
