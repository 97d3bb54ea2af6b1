// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// FuzzServe: whatever is sent, the response is a review of the same UID or a failed call, which leaves it to the failurePolicy.
func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		reviewOfPod, strings.Replace(reviewOfPod, `"u1"`, `""`, 1), strings.Replace(reviewOfPod, "/v1", "/v1beta1", 1),
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, `{"request":{"uid":1}}`, `{}`, `[]`, `null`, "", "\xff",
	} {
		f.Add([]byte(seed))
	}
	served := Serve("test", answering(admission.Denied("in use")))
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequest(http.MethodPost, "/?timeout=2s", strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		served.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK {
			return
		}
		var sent, got admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil || got.Response == nil {
			t.Fatalf("HTTP 200 with %s, %v; expected a review with a response", recorder.Body, err)
		}
		if err := json.Unmarshal(body, &sent); err == nil && sent.Request != nil && got.Response.UID != sent.Request.UID {
			t.Errorf("the response is for %q; expected %q", got.Response.UID, sent.Request.UID)
		}
		if got.Response.Allowed {
			t.Errorf("%s was allowed by a handler that refuses", body)
		}
	})
}
