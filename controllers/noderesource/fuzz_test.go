// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzWebhookRefused: what the API server says of an entry is kept for that entry, and what it says of anything else for none.
func FuzzWebhookRefused(f *testing.F) {
	f.Fuzz(func(t *testing.T, field, message string) {
		entries := []admissionregistrationv1.ValidatingWebhook{{Name: "a"}, {Name: "b"}}
		refused := webhookRefused(entries, &apierrors.StatusError{ErrStatus: metav1.Status{Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Field: field, Message: message}, {Field: "webhooks[1].rules", Message: "second"}}}}})
		for name, word := range refused {
			if name != "a" && name != "b" || len(word) > len(field)+2*len(message)+len("rules: second; ")+2 {
				t.Errorf("%q of %q is kept as %q of %q", message, field, word, name)
			}
		}
		if refused["b"] == "" {
			t.Error("what is said of b is lost")
		}
	})
}
