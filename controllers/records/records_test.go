// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// An older CustomResourceDefinition would drop the pod that disowned an orphan, and the queries about it would not name that pod.
func TestARecordIsWrittenWholeOrNotAtAll(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var validations []string
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			validations = append(validations, (&client.CreateOptions{}).ApplyOptions(opts).FieldValidation)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			validations = append(validations, (&client.UpdateOptions{}).ApplyOptions(opts).FieldValidation)
			return c.Update(ctx, o, opts...)
		}})
	record := OfOrphan("sandbox-1", metav1.Now())
	for range 2 {
		if err := Put(t.Context(), c, record); err != nil {
			t.Fatal(err)
		}
	}
	for _, validation := range validations {
		if validation != metav1.FieldValidationStrict {
			t.Errorf("a write is validated %q, want Strict", validation)
		}
	}
	if len(validations) != 2 {
		t.Errorf("%d writes, want a creation and an update", len(validations))
	}
}
