// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzAdmission: a shadow allows every request that has a UID, changes nothing, and hands its judge's word on to no one else.
func FuzzAdmission(f *testing.F) {
	f.Fuzz(func(t *testing.T, body, said []byte, status uint8) {
		judge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusOK + int(status))
			_, _ = w.Write(said)
		})
		recorder := httptest.NewRecorder()
		Admission("/validate-x", judge).ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/validate-x", bytes.NewReader(body)))
		var sent struct {
			Request struct{ UID types.UID }
		}
		var review admissionv1.AdmissionReview
		if json.Unmarshal(body, &sent) != nil || sent.Request.UID == "" || json.Unmarshal(body, &review) != nil {
			return
		}
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil || got.Response == nil {
			t.Fatalf("got %d %q (%v)", recorder.Code, recorder.Body, err)
		}
		if r := got.Response; r.UID != sent.Request.UID || !r.Allowed || len(r.Patch)+len(r.Warnings) > 0 || r.Result != nil {
			t.Errorf("got %+v", r)
		}
	})
}
