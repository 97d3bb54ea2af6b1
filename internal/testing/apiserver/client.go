// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	errKilled = errors.New("this process is dead")
	errLost   = errors.New("connection reset by the server after the call")
)

// Client is an http.RoundTripper to the server.
type Client struct {
	server   *Server
	identity Identity

	once   sync.Once
	killed chan struct{}
}

// Kill makes every call fail from now on, those under way too: the process is dead.
func (c *Client) Kill() { c.once.Do(func() { close(c.killed) }) }

func (c *Client) isKilled() bool {
	select {
	case <-c.killed:
		return true
	default:
		return false
	}
}

// RoundTrip serves a request.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.isKilled() {
		return nil, errKilled
	}
	q, err := c.parse(r)
	if err != nil {
		return respond(r, nil, err)
	}
	var outcome Outcome
	if c.server.options.Gate != nil {
		outcome = c.server.options.Gate.Pass(r.Context(), q.call())
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if c.isKilled() {
		return nil, errKilled
	}
	if outcome.Err != nil {
		var status apierrors.APIStatus
		if errors.As(outcome.Err, &status) {
			return respond(r, nil, outcome.Err)
		}
		return nil, outcome.Err
	}
	return c.serve(q, outcome.Lost)
}

func (c *Client) serve(q *request, lost bool) (*http.Response, error) {
	if q.verb == "watch" && !lost {
		stream, err := c.server.watch(q)
		if err != nil {
			return respond(q.http, nil, err)
		}
		return response(q.http, http.StatusOK, q.contentType(), stream, -1), nil
	}
	a, err := c.server.do(q)
	switch {
	case c.isKilled():
		return nil, errKilled
	case lost:
		return nil, errLost
	}
	return respond(q.http, a, err)
}

// reply is a successful response; a code of zero is 200.
type reply struct {
	code int
	body []byte
}

func respond(r *http.Request, a *reply, err error) (*http.Response, error) {
	if err != nil {
		status := apierrors.NewInternalError(err).ErrStatus
		var known apierrors.APIStatus
		if errors.As(err, &known) {
			status = known.Status()
		}
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		body, err := json.Marshal(status)
		if err != nil {
			return nil, err
		}
		a = &reply{code: int(status.Code), body: body}
	}
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return response(r, a.code, contentTypeOf(a.body), io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))), nil
}

func response(r *http.Request, code int, contentType string, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: length}
}

// do serves everything but watches.
func (s *Server) do(q *request) (*reply, error) {
	switch {
	case q.review:
		return q.selfSubjectReview()
	case q.verb == "get":
		return s.get(q)
	case q.verb == "list":
		return s.list(q)
	default:
		return s.write(q)
	}
}

// selfSubjectReview returns the user, as authentication has it.
func (q *request) selfSubjectReview() (*reply, error) {
	body, err := json.Marshal(&authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
		Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: q.userInfo()}})
	return &reply{code: http.StatusCreated, body: body}, err
}
