// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// withoutRetry treats a withheld write as done.
type withoutRetry[R comparable] struct {
	reconcile.TypedReconciler[R]
}

// WithoutRetry is a reconciler that does not retry a withheld write: it waits for the next event, as after the write.
func WithoutRetry[R comparable](inner reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return withoutRetry[R]{inner}
}

// Reconcile calls the reconciler.
func (s withoutRetry[R]) Reconcile(ctx context.Context, request R) (reconcile.Result, error) {
	result, err := s.TypedReconciler.Reconcile(ctx, request)
	return result, Ignore(err)
}
