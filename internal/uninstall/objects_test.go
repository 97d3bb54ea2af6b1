// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAPolicyThatWasDeletedIsWaitedOut(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "holdfast-manager", errors.New(why))
	}
	cases := map[string]struct {
		refusal error
		// often is how often the API server refuses; 0 is for ever.
		often, calls int
		deleted      bool
	}{
		"a policy that the API server forgets soon": {forbidden("ValidatingAdmissionPolicy 'holdfast-leases' with binding 'holdfast-leases' denied request"), 3, 4, true},
		"a policy that is applied again":            {forbidden("ValidatingAdmissionPolicy 'holdfast-leases' with binding 'holdfast-leases' denied request"), 0, 0, false},
		"a policy of others is not waited for":      {forbidden("ValidatingAdmissionPolicy 'theirs' denied request"), 0, 1, false},
		"a right that is missing is not waited for": {forbidden("User \"jane\" cannot delete resource \"leases\""), 0, 1, false},
		"a failure of another kind is not tried on": {errors.New("connection refused"), 0, 1, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast-system", Name: "holdfast-manager"}}
				refusing := fake.NewClientBuilder().WithObjects(lease).WithInterceptorFuncs(interceptor.Funcs{
					Delete: func(ctx context.Context, below client.WithWatch, object client.Object, options ...client.DeleteOption) error {
						if calls++; c.often == 0 || calls <= c.often {
							return c.refusal
						}
						return below.Delete(ctx, object, options...)
					},
				}).Build()
				u := &uninstallation{Options: Options{Client: refusing}}
				if err := u.deletePast(t.Context(), lease); (err == nil) != c.deleted {
					t.Errorf("deleting gave %v; expected success: %t", err, c.deleted)
				}
				if c.calls > 0 && calls != c.calls {
					t.Errorf("the API server was asked %d times; expected %d", calls, c.calls)
				}
			})
		})
	}
}
