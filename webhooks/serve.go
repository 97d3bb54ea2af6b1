// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// maxRequestBytes bounds a request: two objects (old and new) of at most 3 MiB each, which is what the API server
	// accepts in a write (k8s.io/apiserver pkg/server/config.go), and 1 MiB for all else.
	maxRequestBytes = 7 << 20

	// maxTimeout is the longest timeoutSeconds that is of use in a guard's webhook; Kubernetes' default is 10s too.
	maxTimeout = 10 * time.Second
)

var errTooLarge = fmt.Errorf("the request is larger than %d bytes", maxRequestBytes)

// CouldNotTell is the answer of a handler that can neither allow nor deny. Serve makes a failed call of it, so that the
// failurePolicy of the webhook decides.
func CouldNotTell(err error) admission.Response {
	return admission.Errored(http.StatusServiceUnavailable, err)
}

// Serve makes an HTTP handler of an admission handler; name is for the log.
//
// It differs from controller-runtime's own in what a mistake is. There, a request that cannot be read, a panic and an
// answer that cannot be encoded become an AdmissionReview that says "not allowed", which is a refusal whatever
// failurePolicy says. Here all of them, and every answer with a code of 500 or more, are HTTP 503 with no AdmissionReview: a
// failed call. A refusal is what a handler means as one, 403 or 422. The body is a Status, whose message the API server hands
// on to the writer where failurePolicy is Fail (client-go, rest.Result.Error).
//
// A request is bounded in size. It is bounded in time by a context that ends at three quarters of the time that the API
// server says it will wait (the parameter "timeout"), so that a handler whose reads hang can still answer.
// A response has no Retry-After, which would make the API server's client try again within the same timeout.
func Serve(name string, h admission.Handler) http.Handler {
	log := logf.Log.WithName("admission").WithName(name)
	return &server{
		log: log,
		webhook: &admission.Webhook{Handler: h, LogConstructor: func(_ logr.Logger, req *admission.Request) logr.Logger {
			return admission.DefaultLogConstructor(log, req)
		}},
	}
}

type server struct {
	log     logr.Logger
	webhook *admission.Webhook
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), budget(r))
	defer cancel()
	review, err := s.review(ctx, w, r)
	if err != nil {
		s.log.Error(err, "Could not tell; the failurePolicy of the webhook decides")
		couldNotTell(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(review); err != nil {
		s.log.Error(err, "The answer was not delivered")
	}
}

func couldNotTell(w http.ResponseWriter, err error) {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: "holdfast could not tell: " + err.Error(),
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(status) // a caller that has gone needs no answer
}

// budget is the time that a handler may take.
func budget(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 || timeout > maxTimeout {
		timeout = maxTimeout
	}
	return timeout * 3 / 4
}

// review answers a request by an encoded AdmissionReview, or by an error if there is nothing to answer.
func (s *server) review(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := readBody(ctx, w, r)
	if err != nil {
		return nil, err
	}
	request, err := decodeReview(body)
	if err != nil {
		return nil, err
	}
	response := s.webhook.Handle(ctx, admission.Request{AdmissionRequest: *request})
	if !response.Allowed && response.Result != nil && response.Result.Code >= http.StatusInternalServerError {
		return nil, errors.New(response.Result.Message)
	}
	review := admissionv1.AdmissionReview{Response: &response.AdmissionResponse}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	encoded, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return encoded, nil
}

// readBody reads the body within its bound and the time that ctx leaves.
func readBody(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return nil, fmt.Errorf("the content type is %q, expected application/json", r.Header.Get("Content-Type"))
	}
	if r.ContentLength > maxRequestBytes {
		return nil, errTooLarge
	}
	connection := http.NewResponseController(w)
	if deadline, set := ctx.Deadline(); set {
		// Not every ResponseWriter can: a test's recorder has its body in memory.
		if err := connection.SetReadDeadline(deadline); err == nil {
			defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
		}
	}
	var body bytes.Buffer
	if n, err := body.ReadFrom(io.LimitReader(r.Body, maxRequestBytes+1)); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	} else if n > maxRequestBytes {
		return nil, errTooLarge
	}
	return body.Bytes(), nil
}

func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, fmt.Errorf("the request is no AdmissionReview: %w", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, fmt.Errorf("the request is %q of %q, expected an AdmissionReview of %s with a request", review.Kind, review.APIVersion, want)
	}
	return review.Request, nil
}
