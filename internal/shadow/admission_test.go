// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

func answering(response *admissionv1.AdmissionResponse) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		response.UID = review.Request.UID
		review.Response = response
		_ = json.NewEncoder(w).Encode(review)
	}
}

func TestAdmissionAllowsEveryRequest(t *testing.T) {
	jsonPatch := admissionv1.PatchTypeJSONPatch
	cases := map[string]struct {
		path    string
		handler http.HandlerFunc
		action  Action
		audit   map[string]string
	}{
		"an answer that allows is handed on": {"/validate-x", answering(&admissionv1.AdmissionResponse{Allowed: true}), "", nil},
		"a refusal": {"/validate-x", answering(&admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 403, Message: "no"}, Warnings: []string{"w"},
			AuditAnnotations: map[string]string{"reason": "r"}}), Refuse, map[string]string{"reason": "r"}},
		"a refusal with a server error": {"/validate-x", answering(&admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 500}}), Refuse, nil},
		"a finalizer": {"/mutate-pods", answering(&admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`), PatchType: &jsonPatch, Warnings: []string{"w"}}),
			Protect, nil},
		"a slice that stays":               {"/mutate-nodeslicepools", answering(&admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`), PatchType: &jsonPatch}), KeepSlice, nil},
		"another patch":                    {"/mutate-x", answering(&admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`), PatchType: &jsonPatch}), Change, nil},
		"a warning":                        {"/validate-x", answering(&admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"w"}}), Warn, nil},
		"a call that failed":               {"/validate-x", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusServiceUnavailable) }, CouldNotTell, nil},
		"a handler that answers no review": {"/validate-x", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }, CouldNotTell, nil},
		"a handler that panics":            {"/validate-x", func(http.ResponseWriter, *http.Request) { panic("broken") }, CouldNotTell, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := total(t, tc.action)
			got := httptest.NewRecorder()
			request := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"the-uid","object":{"metadata":{"generateName":"web-"}}}}`
			if tc.action == CouldNotTell { // these read nothing, and the UID has to be found all the same
				tc.handler = reading(tc.handler)
			}
			Admission(tc.path, tc.handler).ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodPost, tc.path, strings.NewReader(request)))
			want := &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
				Response: &admissionv1.AdmissionResponse{UID: "the-uid", Allowed: true, AuditAnnotations: tc.audit}}
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal(got.Body.Bytes(), &review); err != nil || got.Code != http.StatusOK {
				t.Fatalf("got %d %q (%v), expected an AdmissionReview", got.Code, got.Body, err)
			}
			if diff := cmp.Diff(want, &review); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if times := total(t, tc.action) - before; tc.action != "" && times != 1 {
				t.Errorf("%s was counted %v times, expected once", tc.action, times)
			}
		})
	}
}

// reading has the body read before the handler answers, as every handler of AdmissionReviews does.
func reading(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&admissionv1.AdmissionReview{})
		next(w, r)
	}
}

func total(t *testing.T, action Action) float64 {
	t.Helper()
	return series.Sum(t, "holdfast_shadow_total", string(action))
}

func TestAdmissionHandsOnTheAnswerToWhatIsNoReview(t *testing.T) {
	got := httptest.NewRecorder()
	handler := reading(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"message":"no review"}`))
	})
	Admission("/validate-x", handler).ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("x")))
	if got.Code != http.StatusServiceUnavailable || got.Body.String() != `{"message":"no review"}` {
		t.Errorf("got %d %q, expected what the handler said", got.Code, got.Body)
	}
}

func TestAServerThatDrainsStillEndsItsConnections(t *testing.T) {
	got := httptest.NewRecorder()
	allowed := answering(&admissionv1.AdmissionResponse{Allowed: true})
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		allowed(w, r)
	}
	request := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`
	Admission("/validate-x", http.HandlerFunc(handler)).ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(request)))
	if got.Header().Get("Connection") != "close" {
		t.Errorf("got headers %v, expected the connection to be closed", got.Header())
	}
}
