// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// settled takes what was withheld for done.
type settled[R comparable] struct {
	reconcile.TypedReconciler[R]
}

// Settled is a reconciler that does not try again what was withheld: what it waits for is the next event, as after the write.
func Settled[R comparable](inner reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return settled[R]{inner}
}

// Reconcile calls the reconciler.
func (s settled[R]) Reconcile(ctx context.Context, request R) (reconcile.Result, error) {
	result, err := s.TypedReconciler.Reconcile(ctx, request)
	return result, Ignore(err)
}
