// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const reviewOfPod = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1","operation":"CREATE"}}`

// call sends a body to a handler behind a real HTTP server.
func call(t *testing.T, h admission.Handler, contentType string, body io.Reader) (status int, header http.Header, reply []byte) {
	t.Helper()
	server := httptest.NewServer(Serve("test", h))
	defer server.Close()
	response, err := server.Client().Post(server.URL+"?timeout=2s", contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reply, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, reply
}

func handler(f func(context.Context, admission.Request) admission.Response) admission.Handler {
	return admission.HandlerFunc(f)
}

func responding(r admission.Response) admission.Handler {
	return handler(func(context.Context, admission.Request) admission.Response { return r })
}

func TestServeRespondsWithAReview(t *testing.T) {
	patched := admission.Patched("", jsonpatch.NewOperation("add", "/metadata/labels", map[string]string{"a": "b"}))
	cases := map[string]struct {
		response admission.Response
		allowed  bool
		code     int32
		patch    string
	}{
		"allowed":       {response: admission.Allowed(""), allowed: true, code: 200},
		"patched":       {response: patched, allowed: true, code: 200, patch: `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`},
		"denied":        {response: admission.Denied("in use"), code: 403},
		"invalid":       {response: admission.Errored(http.StatusUnprocessableEntity, errors.New("bad")), code: 422},
		"with warnings": {response: admission.Allowed("").WithWarnings("careful"), allowed: true, code: 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := reviewResponse(t, responding(tc.response))
			if got.UID != "u1" || got.Allowed != tc.allowed || got.Result.Code != tc.code || string(got.Patch) != tc.patch {
				t.Errorf("got %+v, want allowed %v, code %d, patch %s", got, tc.allowed, tc.code, tc.patch)
			}
			if diff := cmp.Diff(tc.response.Warnings, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// reviewResponse expects an AdmissionReview as the response.
func reviewResponse(t *testing.T, h admission.Handler) *admissionv1.AdmissionResponse {
	t.Helper()
	status, header, reply := call(t, h, "application/json; charset=utf-8", strings.NewReader(reviewOfPod))
	if status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Fatalf("got HTTP %d of %q, want 200 of JSON; body %s", status, header.Get("Content-Type"), reply)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(reply, &review); err != nil || review.Response == nil {
		t.Fatalf("the response %s is no AdmissionReview with a response: %v", reply, err)
	}
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" {
		t.Errorf("got %s of %s, want an AdmissionReview of v1", review.Kind, review.APIVersion)
	}
	return review.Response
}

func TestServeFailsTheCallWhenItCannotTell(t *testing.T) {
	allowing := responding(admission.Allowed(""))
	unencodable := admission.Patched("", jsonpatch.NewOperation("add", "/x", func() {}))
	large := func() io.Reader {
		return io.MultiReader(strings.NewReader(reviewOfPod), bytes.NewReader(bytes.Repeat([]byte(" "), maxRequestBytes)))
	}
	cases := map[string]struct {
		handler     admission.Handler
		contentType string
		body        io.Reader
		want        string
	}{
		"the handler could not decide": {handler: responding(CouldNotTell(errors.New("no quorum"))), want: "no quorum"},
		"the handler says 500":         {handler: responding(admission.Errored(500, errors.New("broken"))), want: "broken"},
		"a read beside others panics": {handler: handler(func(context.Context, admission.Request) admission.Response {
			sideBySide(func() {}, func() { panic("boom") })
			return admission.Allowed("")
		}), want: "boom"},
		"the handler panics":                   {handler: handler(func(context.Context, admission.Request) admission.Response { panic("boom") }), want: "boom"},
		"a patch that cannot be encoded":       {handler: responding(unencodable), want: "unable to encode"},
		"a body too large, of known length":    {handler: allowing, body: strings.NewReader(reviewOfPod + strings.Repeat(" ", maxRequestBytes)), want: "larger than"},
		"a body too large, of unknown length":  {handler: allowing, body: large(), want: "larger than"},
		"an empty body":                        {handler: allowing, body: strings.NewReader(""), want: "no AdmissionReview"},
		"a body that is no JSON":               {handler: allowing, body: strings.NewReader("{"), want: "no AdmissionReview"},
		"a review without a request":           {handler: allowing, body: strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), want: "expected an AdmissionReview"},
		"a review of a version that is not v1": {handler: allowing, body: strings.NewReader(strings.Replace(reviewOfPod, "/v1", "/v1beta1", 1)), want: "v1beta1"},
		"another content type":                 {handler: allowing, contentType: "text/plain", want: "content type"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			contentType, body := "application/json", io.Reader(strings.NewReader(reviewOfPod))
			if tc.contentType != "" {
				contentType = tc.contentType
			}
			if tc.body != nil {
				body = tc.body
			}
			status, header, reply := call(t, tc.handler, contentType, body)
			if status != http.StatusServiceUnavailable || header.Get("Content-Type") != "application/json" || header.Get("Retry-After") != "" {
				t.Errorf("got HTTP %d, headers %v, want 503, a Status and no Retry-After", status, header)
			}
			if !strings.Contains(string(reply), tc.want) {
				t.Errorf("got %q, want %q in it", reply, tc.want)
			}
			var failed struct{ Kind, Status, Message string }
			if err := json.Unmarshal(reply, &failed); err != nil || failed.Kind != "Status" || failed.Status != metav1.StatusFailure {
				t.Errorf("the body is %s, %v, want a Status that the API server cannot take for a review", reply, err)
			}
		})
	}
}

func TestServeEndsTheHandlersContextBeforeTheAPIServerGivesUp(t *testing.T) {
	cases := map[string]struct {
		query string
		want  time.Duration
	}{
		"the API server's timeout": {query: "?timeout=2s", want: 1500 * time.Millisecond},
		"no timeout":               {want: maxTimeout * 3 / 4},
		"a timeout of no sense":    {query: "?timeout=soon", want: maxTimeout * 3 / 4},
		"a negative timeout":       {query: "?timeout=-1s", want: maxTimeout * 3 / 4},
		"a timeout of an hour":     {query: "?timeout=1h", want: maxTimeout * 3 / 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := budget(httptest.NewRequest(http.MethodPost, "/mutate-pods"+tc.query, nil)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	waiting := handler(func(ctx context.Context, _ admission.Request) admission.Response {
		<-ctx.Done()
		return CouldNotTell(ctx.Err())
	})
	recorder, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/?timeout=20ms", strings.NewReader(reviewOfPod))
	request.Header.Set("Content-Type", "application/json")
	Serve("test", waiting).ServeHTTP(recorder, request)
	if recorder.Code != http.StatusServiceUnavailable || !strings.Contains(recorder.Body.String(), context.DeadlineExceeded.Error()) {
		t.Errorf("got HTTP %d, %q, want 503 and the deadline", recorder.Code, recorder.Body)
	}
}

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(Serve("test", handler(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })))
			server.EnableHTTP2 = http2
			server.StartTLS()
			t.Cleanup(server.Close)
			post := func(body io.Reader) (int, string) {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/?timeout=200ms", body)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				request.ContentLength = int64(len(reviewOfPod))
				response, err := server.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				return response.StatusCode, string(text)
			}
			part, rest := io.Pipe()
			t.Cleanup(func() { _ = rest.Close() })
			go func() { _, _ = rest.Write([]byte(reviewOfPod[:len(reviewOfPod)/2])) }()
			if code, text := post(part); code != http.StatusServiceUnavailable || !strings.Contains(text, "reading the request") {
				t.Errorf("HTTP %d, %s; want 503 once the time is up", code, text)
			}
			if code, text := post(strings.NewReader(reviewOfPod)); code != http.StatusOK {
				t.Errorf("the request after it: HTTP %d, %s", code, text)
			}
		})
	}
}
