// SPDX-License-Identifier: Apache-2.0

// Package shadow makes a manager that observes, judges and reports, and changes nothing (docs/decisions/0094). cmd/manager/app puts these before
// everything that acts:
//
//   - a Reporter, which the writers of pods, IPAM objects and node-scoped objects have: it reports each write and returns ErrWithheld. A nil Reporter
//     withholds nothing: that is mode Guard;
//   - Admission, before every webhook: the handler judges, and the request is allowed;
//   - an event recorder, so that no event claims an action;
//   - a gate before the API server, with a list of the writes that Shadow may make. Only a write that was forgotten above is stopped there.
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

// What is withheld from responses to the API server.
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
	// CouldNotTell: the write could not be judged, and the failurePolicy would have decided.
	CouldNotTell Action = "could_not_tell"
)

// What is withheld from the control loops.
const (
	// ProtectLate: a pod that holds an address and was missed would have been protected.
	ProtectLate Action = "protect_late"
	// Explain: the pod condition would have reported what a pod waits for.
	Explain Action = "explain"
	// Query: nodes would have been queried about a sandbox.
	Query Action = "query"
	// Release: an entry would have been released to its pool.
	Release Action = "release"
	// Tombstone: the entry of a deleted pod would have been reserved until its sandbox is proven gone.
	Tombstone Action = "tombstone"
	// Rewrite: an entry would have been rewritten for the sandbox that replaced its own.
	Rewrite Action = "rewrite"
	// CreateReservation, GiveReservation and DeleteReservation: a reservation would have been corrected.
	CreateReservation Action = "create_reservation"
	GiveReservation   Action = "give_reservation"
	DeleteReservation Action = "delete_reservation"
	// ClearSlice: the slice of a deleted node would have been cleared.
	ClearSlice Action = "clear_slice"
	// DeleteNodeObject: a stale node-scoped object would have been deleted.
	DeleteNodeObject Action = "delete_node_object"
)

// ErrWithheld is the error of a write that was only reported. It is no failure, and is not retried.
var ErrWithheld = errors.New("withheld, because the mode is Shadow")

// reported is how many writes are remembered as reported.
const reported = 1 << 16

// Reporter reports writes instead of making them. A nil one withholds nothing.
type Reporter struct {
	mu   sync.Mutex
	done *lru.Cache
}

// NewReporter makes the Reporter of one manager.
func NewReporter() *Reporter { return &Reporter{done: lru.New(reported)} }

type reportKey struct {
	action Action
	target string
}

// Withhold precedes a write: nil allows it; ErrWithheld means that it was reported. The target identifies what would have been written, so that a write
// that is decided on repeatedly is reported once.
func (r *Reporter) Withhold(ctx context.Context, action Action, target, why string) error {
	if r == nil {
		return nil
	}
	if r.isNew(reportKey{action, target}) {
		metrics.Shadow.WithLabelValues(string(action)).Inc()
		log.FromContext(ctx).Info("Shadow: nothing was done; in mode Guard it would have been", "action", action, "target", target, "why", why)
	}
	return fmt.Errorf("%s %s: %w", action, target, ErrWithheld)
}

func (r *Reporter) isNew(key reportKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.done.Get(key)
	r.done.Add(key, nil)
	return !known
}

// Ignore is nil if an error consists of nothing but ErrWithheld; otherwise it is the error.
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
