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
	"runtime"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/apijson"
)

const (
	// maxRequestBytes bounds a request: two objects (old and new) of at most 3 MiB each, which is what the API server
	// accepts in a write (k8s.io/apiserver pkg/server/config.go), and 1 MiB for all else.
	maxRequestBytes = 7 << 20
	// maxPodBytes bounds the review of a pod's creation: one object, of at most 3 MiB.
	maxPodBytes = 3<<20 + 1<<19
	// maxPoolBytes bounds the review of an object of whereabouts: etcd stores 1.5 MiB (--max-request-bytes), old and new. A pool
	// of 16,000 entries is smaller.
	maxPoolBytes = 4 << 20

	// maxMembers bounds the members of all lists and objects in a request, which is what decoding costs memory for. Two objects
	// of 1.5 MiB cannot have more: the shortest member of a stored object is a finalizer of one letter, of four bytes.
	maxMembers = 800_000
	// maxUserBytes bounds the identity in a request.
	maxUserBytes = 64 << 10

	// Requests of up to smallRequest bytes have a budget of their own, so that a few large ones cannot keep them waiting.
	smallRequest     = 64 << 10
	smallBytesAtOnce = 8 << 20
	largeBytesAtOnce = 8 << 20

	// firstBytes is what a small request has memory for before its bytes come.
	firstBytes = 16 << 10

	// failuresPerSecond and failureBurst bound the log lines about calls that failed.
	failuresPerSecond, failureBurst = 1, 25

	// maxTimeout is the longest timeoutSeconds that is of use in a guard's webhook; Kubernetes' default is 10s too.
	maxTimeout = 10 * time.Second
)

var (
	errBusy           = errors.New("too many requests at once")
	errTooManyMembers = fmt.Errorf("the request has more than %d members of lists and objects", maxMembers)
	errUserTooLarge   = fmt.Errorf("the identity in the request is larger than %d bytes", maxUserBytes)
)

// The budgets of all webhooks of the process together, in bytes of requests that are decoded or judged; of large ones while they are read, too (docs/decisions/0310).
var smallRequests, largeRequests = semaphore.NewWeighted(smallBytesAtOnce), semaphore.NewWeighted(largeBytesAtOnce)

// CouldNotTell is the response of a handler that can neither allow nor deny. Serve makes a failed call of it, so that the
// failurePolicy of the webhook decides.
func CouldNotTell(err error) admission.Response {
	return admission.Errored(http.StatusServiceUnavailable, err)
}

// Serve makes an HTTP handler of an admission handler; name is for the log.
//
// It differs from controller-runtime's own in the handling of errors. There, a request that cannot be read, a panic and a
// response that cannot be encoded become an AdmissionReview that says "not allowed", which is a refusal under any
// failurePolicy. Here all of them, and every response with a code of 500 or more, are HTTP 503 with no AdmissionReview: a
// failed call. Only 403 and 422 are refusals. The body is a Status, whose message the API server hands
// on to the client where failurePolicy is Fail (client-go, rest.Result.Error).
//
// A request is bounded in size and in members, before it is decoded, and all requests that are decoded or judged together in bytes:
// a request that finds no capacity in its time is a failed call. It is bounded in time by a context that ends at three quarters of the time that the API
// server will wait (the parameter "timeout"), so that a handler whose reads hang can still respond.
// A response has no Retry-After, which would make the API server's client try again within the same timeout.
func Serve(name string, h admission.Handler) http.Handler {
	return serve(name, maxRequestBytes, h)
}

func serve(name string, maxBytes int64, h admission.Handler) http.Handler {
	log := logf.Log.WithName("admission").WithName(name)
	return &server{
		log: log, maxBytes: maxBytes, failures: flowcontrol.NewTokenBucketPassiveRateLimiter(failuresPerSecond, failureBurst),
		webhook: &admission.Webhook{Handler: h, LogConstructor: func(_ logr.Logger, req *admission.Request) logr.Logger {
			// Texts alone: admission.DefaultLogConstructor has objects encoded by reflection, for requests that log nothing.
			return log.WithValues("namespace", req.Namespace, "name", req.Name, "resource", req.Resource.Resource, "user", req.UserInfo.Username, "requestID", string(req.UID))
		}},
	}
}

type server struct {
	log      logr.Logger
	maxBytes int64
	webhook  *admission.Webhook
	// failures limits the log lines that a client can cause.
	failures flowcontrol.PassiveRateLimiter
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	growStack()
	ctx, cancel := context.WithTimeout(r.Context(), budget(r))
	defer cancel()
	review, err := s.review(ctx, w, r)
	if err != nil {
		if s.failures.TryAccept() {
			s.log.Error(err, "Could not tell; the failurePolicy of the webhook decides")
		}
		couldNotTell(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(review); err != nil {
		s.log.Error(err, "The response was not delivered")
	}
}

// growStack gives the goroutine of a request the stack that decoding takes, while there is little on it to copy: a growth in the depths of the
// decoder was 6 % of the processor time of a review.
//
//go:noinline
func growStack() {
	var room [16 << 10]byte
	runtime.KeepAlive(&room)
}

func couldNotTell(w http.ResponseWriter, err error) {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: "holdfast could not tell: " + err.Error(),
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(status) // a client that has disconnected needs no response
}

// budget is the time that a handler may take.
func budget(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 || timeout > maxTimeout {
		timeout = maxTimeout
	}
	return timeout * 3 / 4
}

// review responds to a request with an encoded AdmissionReview, or with an error if it is no review.
func (s *server) review(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return nil, fmt.Errorf("the content type is %.80q, expected application/json", r.Header.Get("Content-Type"))
	}
	body, free, err := s.body(ctx, w, r)
	if err != nil {
		return nil, err
	}
	defer free()
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
		return nil, fmt.Errorf("encoding the response: %w", err)
	}
	return encoded, nil
}

// body reads the request and reserves its bytes until free is called. A small one counts once it is there: a client that declares a body and sends none
// must not keep those of the API server waiting. The memory for a large one is reserved first.
func (s *server) body(ctx context.Context, w http.ResponseWriter, r *http.Request) (body []byte, free func(), err error) {
	if 0 <= r.ContentLength && r.ContentLength <= smallRequest {
		if body, err = s.readBody(ctx, w, r); err == nil {
			free, err = s.reserve(ctx, r.ContentLength)
		}
		return body, free, err
	}
	if free, err = s.reserve(ctx, r.ContentLength); err != nil {
		return nil, nil, err
	}
	if body, err = s.readBody(ctx, w, r); err != nil {
		free()
	}
	return body, free, err
}

// reserve waits for the bytes that a request declares, or may have where it declares none.
func (s *server) reserve(ctx context.Context, declared int64) (free func(), err error) {
	if declared > s.maxBytes {
		return nil, s.errTooLarge()
	}
	bytes, budget := declared, smallRequests
	if declared < 0 {
		bytes = s.maxBytes
	}
	if bytes > smallRequest {
		budget = largeRequests
	}
	if budget.Acquire(ctx, bytes) != nil {
		return nil, errBusy
	}
	return func() { budget.Release(bytes) }, nil
}

func (s *server) errTooLarge() error {
	return fmt.Errorf("the request is larger than %d bytes", s.maxBytes)
}

// readBody reads the body within its bounds and the time that ctx leaves.
func (s *server) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	defer stopReadingAtEnd(ctx, http.NewResponseController(w))()
	var body bytes.Buffer
	if declared := min(r.ContentLength, s.maxBytes); declared > smallRequest { // reserved
		body.Grow(int(declared) + bytes.MinRead)
	} else { // more than an ordinary review has
		body.Grow(int(max(0, min(declared, firstBytes))) + bytes.MinRead)
	}
	if n, err := body.ReadFrom(io.LimitReader(r.Body, s.maxBytes+1)); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	} else if n > s.maxBytes {
		return nil, s.errTooLarge()
	}
	// Most requests have fewer commas, wherever they are.
	if bytes.Count(body.Bytes(), []byte{','}) > maxMembers && members(body.Bytes()) > maxMembers {
		return nil, errTooManyMembers
	}
	return body.Bytes(), nil
}

// stopReadingAtEnd makes reads of the body fail once ctx is done, until it is told that the body was read. A deadline that is set in advance costs
// two switches to another goroutine for each request of HTTP/2.
func stopReadingAtEnd(ctx context.Context, connection *http.ResponseController) (read func()) {
	stopped := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		// Not every ResponseWriter can: a test's recorder has its body in memory.
		_ = connection.SetReadDeadline(time.Unix(1, 0))
		close(stopped)
	})
	return func() {
		if !release() {
			<-stopped // the server reads nothing more of this connection either, and closes it
		}
	}
}

// members counts the commas outside of strings. Those inside cost nothing, and an annotation may be full of them.
func members(json []byte) (n int) {
	inString := false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case c == '"':
			inString = !inString
		case c == '\\' && inString:
			i++
		case c == ',' && !inString:
			n++
		}
	}
	return n
}

// admissionReview is the envelope of a request. The identity is decoded on its own, once its size is known, and the options of
// the write, which no handler reads, are not.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *struct {
		admissionv1.AdmissionRequest
		Options  struct{}        `json:"options"`
		UserInfo json.RawMessage `json:"userInfo"`
	} `json:"request"`
}

func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionReview
	if err := apijson.Unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("the request is no AdmissionReview: %w", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, fmt.Errorf("the request is %.80q of %.80q, expected an AdmissionReview of %s with a request", review.Kind, review.APIVersion, want)
	}
	request := &review.Request.AdmissionRequest
	if user := review.Request.UserInfo; len(user) > maxUserBytes {
		return nil, errUserTooLarge
	} else if len(user) > 0 {
		if err := apijson.Unmarshal(user, &request.UserInfo); err != nil {
			return nil, fmt.Errorf("the request is no AdmissionReview: %w", err)
		}
	}
	return request, nil
}
