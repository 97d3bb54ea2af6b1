// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

// BenchmarkPoolGuard judges a CNI DEL in a pool of 4,000 entries: "guard" is the handler as it is served, and "valid" what it costs to look once at
// each byte of the same review.
func BenchmarkPoolGuard(b *testing.B) {
	const size = 4000
	entries := map[string][2]string{"1": web0["1"]}
	for i := 2; i <= size; i++ {
		entries[fmt.Sprint(i)] = [2]string{fmt.Sprintf("%064d", i), fmt.Sprintf("default/web-%d", i)}
	}
	after := maps.Clone(entries)
	delete(after, "1")
	const network = "10.10.0.0/16"
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "review", Operation: admissionv1.Update, UserInfo: cniToken(), Namespace: "kube-system", Name: "10.10.0.0-16",
			Resource:  metav1.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Resource: "ippools"},
			OldObject: poolJSON(b, network, entries), Object: poolJSON(b, network, after)},
	})
	if err != nil {
		b.Fatal(err)
	}
	guard, _ := onNodeA().guard(b, configv1alpha1.ReleaseModeDeny)
	guard.options.Timeout = time.Minute
	handler := serve("ippools", maxPoolBytes, &IPPoolReleaseValidator{guard})

	b.Run("guard", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			request := httptest.NewRequest(http.MethodPost, "/validate-release-ippool?timeout=10s", bytes.NewReader(review))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			var reply admissionv1.AdmissionReview
			if err := json.Unmarshal(recorder.Body.Bytes(), &reply); err != nil || reply.Response == nil || !reply.Response.Allowed {
				b.Fatalf("status %d, %s", recorder.Code, recorder.Body)
			}
		}
	})
	b.Run("valid", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body, err := io.ReadAll(bytes.NewReader(review))
			if err != nil || !json.Valid(body) {
				b.Fatal("the review is no JSON")
			}
		}
	})
}

// BenchmarkPodWebhook protects an ordinary pod: "guard" is the handler as it is served.
func BenchmarkPodWebhook(b *testing.B) {
	pod := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"apps","labels":{"app":"web"},"annotations":{"k8s.v1.cni.cncf.io/networks":"blue"}},` +
		`"spec":{"containers":[{"name":"main","image":"registry.invalid/server:1.2.3","args":["--listen=:8080"]}]}}`)
	review, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "review", "operation": "CREATE", "namespace": "apps", "name": "web-0", "resource": map[string]string{"version": "v1", "resource": "pods"},
		"object": json.RawMessage(pod)}})
	if err != nil {
		b.Fatal(err)
	}
	handler := serve("pods", maxPodBytes, defaulter(b, newDefinitions(), protection.Rules{}))
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequest(http.MethodPost, PodPath+"?timeout=10s", bytes.NewReader(review))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		// As the server does: each request has a goroutine of its own, with a small stack.
		served := make(chan struct{})
		go func() {
			handler.ServeHTTP(recorder, request)
			close(served)
		}()
		<-served
		if recorder.Code != http.StatusOK || !bytes.Contains(recorder.Body.Bytes(), []byte(`"patch"`)) {
			b.Fatalf("status %d, %s", recorder.Code, recorder.Body)
		}
	}
}
