// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// Admission lets a handler judge each AdmissionReview, reports its response, and allows the request without patch or warning, also where the
// handler failed. Audit annotations stay, because only the audit log gets them.
//
// A request without a UID, which no API server sends, gets the handler's own response.
func Admission(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		judged := &recording{ResponseWriter: w, header: http.Header{}, status: http.StatusOK}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &body), r.Body}
		judged.run(next, r)

		var review admissionv1.AdmissionReview
		if json.Unmarshal(body.Bytes(), &review) != nil || review.Request == nil || review.Request.UID == "" {
			judged.copyTo(w)
			return
		}
		response, failure := judged.response()
		report(path, review.Request, response, failure)
		allowed := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if response != nil {
			allowed.AuditAnnotations = response.AuditAnnotations
		}
		review = admissionv1.AdmissionReview{Response: allowed}
		review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		if values := judged.header["Connection"]; values != nil { // a server that drains closes its connections
			w.Header()["Connection"] = values
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			logf.Log.WithName("shadow").Error(err, "The response was not delivered", "path", path)
		}
	})
}

// report counts and logs what a response would have done.
func report(path string, request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, failure string) {
	action, why := judgement(path, response, failure)
	if action == "" {
		return
	}
	metrics.Shadow.WithLabelValues(string(action)).Inc()
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(request.Object.Raw, &object) // an object that cannot be read has no name to log
	logf.Log.WithName("shadow").Info("Shadow: the request was allowed as it is; in mode Guard it would not have been", "action", action,
		"path", path, "operation", request.Operation, "resource", request.Resource.Resource, "subresource", request.SubResource,
		"namespace", request.Namespace, "name", cmp.Or(request.Name, object.GenerateName), "user", request.UserInfo.Username, "why", why)
}

// judgement is what a response would have done, and its message; empty for one that only allows.
func judgement(path string, response *admissionv1.AdmissionResponse, failure string) (Action, string) {
	if response == nil {
		return CouldNotTell, failure
	}
	message, warnings := "", strings.Join(response.Warnings, " ")
	if response.Result != nil {
		message = response.Result.Message
	}
	switch {
	case !response.Allowed:
		return Refuse, message
	case len(response.Patch) > 0 && strings.HasSuffix(path, "-pods"):
		return Protect, strings.TrimSuffix(message+" "+warnings, " ")
	case len(response.Patch) > 0 && strings.HasSuffix(path, "-nodeslicepools"):
		return KeepSlice, warnings
	case len(response.Patch) > 0:
		return Change, warnings
	case len(response.Warnings) > 0:
		return Warn, warnings
	}
	return "", ""
}

// recording keeps what a handler writes.
type recording struct {
	http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is that of the recorded response.
func (a *recording) Header() http.Header { return a.header }

// WriteHeader keeps the status.
func (a *recording) WriteHeader(status int) { a.status = status }

// Write keeps the body.
func (a *recording) Write(content []byte) (int, error) { return a.body.Write(content) }

// Unwrap lets the handler set deadlines of the connection.
func (a *recording) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// run calls a handler. A panic is a failed call.
func (a *recording) run(next http.Handler, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			a.status = http.StatusInternalServerError
			a.body.Reset()
			logf.Log.WithName("shadow").Error(fmt.Errorf("the handler panicked: %v", p), "The request was not judged", "path", r.URL.Path)
		}
	}()
	next.ServeHTTP(a, r)
}

// response is the recorded response; nil for a failed call, with its message.
func (a *recording) response() (_ *admissionv1.AdmissionResponse, failure string) {
	var review admissionv1.AdmissionReview
	if a.status == http.StatusOK && json.Unmarshal(a.body.Bytes(), &review) == nil {
		return review.Response, ""
	}
	var status metav1.Status
	_ = json.Unmarshal(a.body.Bytes(), &status) // another body has no message
	return nil, status.Message
}

func (a *recording) copyTo(w http.ResponseWriter) {
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the client may have closed the connection
}
