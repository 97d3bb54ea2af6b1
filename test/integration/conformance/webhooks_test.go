// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhooks serves admission reviews for both servers.
type webhooks struct {
	server *httptest.Server
	ca     string // base64 of PEM
}

func startWebhooks(t *testing.T) *webhooks {
	t.Helper()
	w := &webhooks{server: httptest.NewTLSServer(http.HandlerFunc(review))}
	t.Cleanup(w.server.Close)
	w.ca = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}))
	return w
}

// handler is how the server in memory reaches them.
func (w *webhooks) handler(admissionregistrationv1.WebhookClientConfig) http.Handler {
	return http.HandlerFunc(review)
}

// client is the client configuration of the webhook at a path.
func (w *webhooks) client(path string) string {
	return `{"url":"` + w.server.URL + path + `","caBundle":"CABUNDLE"}`
}

// review responds by path: /refuse refuses, /label adds a label, anything else fails.
func review(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch r.URL.Path {
	case "/refuse":
		response.Allowed = false
		response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "by the story"}
	case "/label":
		response.Patch = []byte(`[{"op":"add","path":"/metadata/labels","value":{"by":"webhook"}}]`)
		response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	default:
		http.Error(w, "cannot decide", http.StatusServiceUnavailable)
		return
	}
	review.Response, review.Request = response, nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
