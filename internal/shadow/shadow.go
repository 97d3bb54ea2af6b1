// SPDX-License-Identifier: Apache-2.0

// Package shadow makes a manager that observes, judges and reports as ever, and does nothing. It is asked for in one place,
// cmd/manager/app, which puts these in front of what acts:
//
//   - a Reporter, which the writers of pods, of IPAM objects and of node-scoped objects have: each write is reported as what
//     would have been done, and answered with ErrWithheld. A nil Reporter withholds nothing: that is mode Guard;
//   - Admission, before every webhook: it is asked and judges, and the API server is told to allow;
//   - a Recorder, so that no event says that something was done;
//   - a Gate, before the API server: it lets through the writes that Shadow may make, by a list, and stops all others. Nothing
//     but a path that was forgotten above comes to it.
//
// Why it is so, and what becomes of pods that the guard protected before: docs/decisions/0094.
package shadow

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// Action is what would have been done: a value of the label "action" of holdfast_shadow_total.
type Action string

// What is withheld from the API server's answers.
const (
	// Protect: a new pod would have got finalizer and label.
	Protect Action = "protect"
	// KeepSlice: a node would have been given its slice back.
	KeepSlice Action = "keep_slice"
	// Change: an object would have been changed in another way.
	Change Action = "change"
	// Refuse: a write would have been refused.
	Refuse Action = "refuse"
	// Warn: a write would have been let through with a warning.
	Warn Action = "warn"
	// CouldNotTell: nobody could tell, and the failurePolicy would have decided.
	CouldNotTell Action = "could_not_tell"
)

// What is withheld from the control loops.
const (
	// ProtectLate: a pod that holds an address and was missed would have been protected.
	ProtectLate Action = "protect_late"
	// Explain: the pod condition would have said what a pod waits for.
	Explain Action = "explain"
	// Query: nodes would have been queried about a sandbox.
	Query Action = "query"
	// Release: an entry would have gone back to its pool.
	Release Action = "release"
	// Tombstone: the entry of a pod that is gone would have been kept from other pods until its sandbox is proven gone.
	Tombstone Action = "tombstone"
	// Rewrite: an entry would have been given to the sandbox that came in the place of its own.
	Rewrite Action = "rewrite"
	// CreateReservation, GiveReservation and DeleteReservation: a reservation would have been put right.
	CreateReservation Action = "create_reservation"
	GiveReservation   Action = "give_reservation"
	DeleteReservation Action = "delete_reservation"
	// ClearSlice: a slice would have been taken from a node that is gone.
	ClearSlice Action = "clear_slice"
	// DeleteNodeObject: a stale node-scoped object would have been deleted.
	DeleteNodeObject Action = "delete_node_object"
)

// ErrWithheld answers a write that was only reported. It is no failure, and not worth another try.
var ErrWithheld = errors.New("withheld, because the mode is Shadow")

// reported is how many writes are remembered as reported.
const reported = 1 << 16

// Reporter reports writes instead of making them. A nil one withholds nothing.
type Reporter struct {
	mu   sync.Mutex
	told *lru.Cache
}

// NewReporter makes the Reporter of one manager.
func NewReporter() *Reporter { return &Reporter{told: lru.New(reported)} }

type reportKey struct {
	action Action
	target string
}

// Withhold stands before a write: nil lets it be made; ErrWithheld says that it was reported. The target is what would have been
// written, with all that identifies it, so that a write that is decided on again and again is reported once.
func (r *Reporter) Withhold(ctx context.Context, action Action, target, why string) error {
	if r == nil {
		return nil
	}
	if r.news(reportKey{action, target}) {
		metrics.Shadow.WithLabelValues(string(action)).Inc()
		log.FromContext(ctx).Info("Shadow: nothing was done; in mode Guard it would have been", "action", action, "target", target, "why", why)
	}
	return fmt.Errorf("%s %s: %w", action, target, ErrWithheld)
}

func (r *Reporter) news(key reportKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, told := r.told.Get(key); told {
		return false
	}
	r.told.Add(key, nil)
	return true
}

// Ignore is nil where an error says nothing but that writes were withheld. Of several it leaves the others.
func Ignore(err error) error {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		if errors.Is(err, ErrWithheld) {
			return nil
		}
		return err
	}
	for _, one := range several.Unwrap() {
		if Ignore(one) != nil {
			return err
		}
	}
	return nil
}
