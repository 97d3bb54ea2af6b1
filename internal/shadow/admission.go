// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// Admission has a handler of AdmissionReviews judge, reports what it would have answered, and allows: no refusal, no patch, no
// warning. What could not be told is allowed too. Audit annotations stay: they reach nobody but the audit log.
//
// Only a request without a UID, which no API server sends, gets the handler's own answer: there is nothing to allow.
func Admission(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		judged := &answer{ResponseWriter: w, header: http.Header{}, status: http.StatusOK}
		r.Body = readCloser{io.TeeReader(r.Body, &body), r.Body}
		judged.fill(next, r)

		request := decodeRequest(body.Bytes())
		review, said := judged.review()
		if request.UID == "" {
			judged.copyTo(w)
			return
		}
		allowed := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
		if said != nil {
			allowed.AuditAnnotations = said.AuditAnnotations
		}
		report(path, request, said, judged.reason())
		review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		review.Request, review.Response = nil, allowed
		for key, values := range judged.header {
			if key == "Connection" { // a server that drains ends its connections
				w.Header()[key] = values
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			logf.Log.WithName("shadow").Error(err, "The answer was not delivered", "path", path)
		}
	})
}

// report counts and logs what would have been answered.
func report(path string, request *admissionv1.AdmissionRequest, said *admissionv1.AdmissionResponse, failure string) {
	action, why := judgement(path, said, failure)
	if action == "" {
		return
	}
	metrics.Shadow.WithLabelValues(string(action)).Inc()
	name := request.Name
	if name == "" {
		name = generateName(request)
	}
	logf.Log.WithName("shadow").Info("Shadow: the request was let through as it is; in mode Guard it would not have been", "action", action,
		"path", path, "operation", request.Operation, "resource", request.Resource.Resource, "subresource", request.SubResource,
		"namespace", request.Namespace, "name", name, "user", request.UserInfo.Username, "why", why)
}

// judgement is what an answer would have done, and its words; empty for one that allows and no more.
func judgement(path string, said *admissionv1.AdmissionResponse, failure string) (Action, string) {
	switch {
	case said == nil:
		return CouldNotTell, failure
	case !said.Allowed:
		return Refuse, message(said)
	case len(said.Patch) > 0 && strings.HasSuffix(path, "-pods"):
		return Protect, strings.Join(append([]string{message(said)}, said.Warnings...), " ")
	case len(said.Patch) > 0 && strings.HasSuffix(path, "-nodeslicepools"):
		return KeepSlice, strings.Join(said.Warnings, " ")
	case len(said.Patch) > 0:
		return Change, strings.Join(said.Warnings, " ")
	case len(said.Warnings) > 0:
		return Warn, strings.Join(said.Warnings, " ")
	}
	return "", ""
}

func message(said *admissionv1.AdmissionResponse) string {
	if said.Result == nil {
		return ""
	}
	return said.Result.Message
}

// generateName is the name of a pod that has none yet.
func generateName(request *admissionv1.AdmissionRequest) string {
	var object struct {
		Metadata struct {
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(request.Object.Raw, &object) // an object that cannot be read has no name to tell
	return object.Metadata.GenerateName
}

func decodeRequest(body []byte) *admissionv1.AdmissionRequest {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		return &admissionv1.AdmissionRequest{UID: types.UID("")}
	}
	return review.Request
}

type readCloser struct {
	io.Reader
	io.Closer
}

// answer keeps what a handler writes.
type answer struct {
	http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is that of the answer that is kept.
func (a *answer) Header() http.Header { return a.header }

// fill has a handler answer. One that panics could not tell.
func (a *answer) fill(next http.Handler, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			a.status = http.StatusInternalServerError
			a.body.Reset()
			logf.Log.WithName("shadow").Error(fmt.Errorf("the handler panicked: %v", p), "Could not tell", "path", r.URL.Path)
		}
	}()
	next.ServeHTTP(a, r)
}

// WriteHeader keeps the status.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write keeps the body.
func (a *answer) Write(content []byte) (int, error) { return a.body.Write(content) }

// Unwrap lets the handler set deadlines of the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// review is what was answered; nil for a call that failed.
func (a *answer) review() (*admissionv1.AdmissionReview, *admissionv1.AdmissionResponse) {
	var review admissionv1.AdmissionReview
	if a.status != http.StatusOK || json.Unmarshal(a.body.Bytes(), &review) != nil {
		return &admissionv1.AdmissionReview{}, nil
	}
	return &review, review.Response
}

// reason is the message of a call that failed.
func (a *answer) reason() string {
	var status struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(a.body.Bytes(), &status) // what has no message has none to tell
	return status.Message
}

func (a *answer) copyTo(w http.ResponseWriter) {
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // a caller that has gone needs no answer
}
