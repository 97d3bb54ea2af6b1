// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// answer is an API server's "no". It is JSON whatever the client asked for: clients decode by the answer's content type.
func answer(r *http.Request, c Call, kind Kind, retryAfter time.Duration) *http.Response {
	var err *apierrors.StatusError
	header := http.Header{}
	switch kind {
	case Conflict:
		err = apierrors.NewConflict(c.Resource, c.Name, errors.New("the object has been modified (injected fault)"))
	case Invalid:
		err = apierrors.NewInvalid(schema.GroupKind{Group: c.Resource.Group, Kind: c.Resource.Resource}, c.Name,
			field.ErrorList{field.Forbidden(field.NewPath("spec"), "injected fault")})
	case TooManyRequests:
		seconds := int(retryAfter / time.Second)
		err = apierrors.NewTooManyRequests("too many requests (injected fault)", seconds)
		header.Set("Retry-After", strconv.Itoa(seconds))
	default:
		err = apierrors.NewInternalError(fmt.Errorf("injected fault: %s", kind))
	}
	return statusResponse(r, header, err)
}

// expired is what a client gets that asks for the events after a version that the server has forgotten.
func expired(r *http.Request) *http.Response {
	return statusResponse(r, http.Header{}, apierrors.NewResourceExpired("too old resource version (injected fault)"))
}

// noWatchList is what a server answers that cannot stream lists; reflectors list instead.
func noWatchList(r *http.Request, c Call) *http.Response {
	return statusResponse(r, http.Header{}, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, c.Resource.Resource,
		field.ErrorList{field.Forbidden(field.NewPath("sendInitialEvents"), "a frozen view streams no lists")}))
}

func statusResponse(r *http.Request, header http.Header, err *apierrors.StatusError) *http.Response {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	data, encodingErr := json.Marshal(status)
	if encodingErr != nil {
		data = []byte(encodingErr.Error())
	}
	header.Set("Content-Type", "application/json")
	return response(r, int(status.Code), header, io.NopCloser(bytes.NewReader(data)), int64(len(data)))
}

func response(r *http.Request, code int, header http.Header, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: body, ContentLength: length, Request: r}
}

// errReset is what a peer's RST looks like.
func errReset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// errTimeout is what a client's own time limit looks like.
type errTimeout struct{}

var _ net.Error = errTimeout{}

// Error is for people.
func (errTimeout) Error() string {
	return "net/http: timeout awaiting response headers (injected fault)"
}

// Timeout is true.
func (errTimeout) Timeout() bool { return true }

// Temporary is true.
func (errTimeout) Temporary() bool { return true }

// closeBody keeps the contract of http.RoundTripper for a request that is not sent.
func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}
