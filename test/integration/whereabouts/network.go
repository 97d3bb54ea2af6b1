// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

var (
	errCrashed = errors.New("the process is dead")
	errCut     = errors.New("the watch is cut")
)

// network stands between one manager and the API server: it counts, cuts and refuses. Zero lets everything through.
type network struct {
	mu     sync.Mutex
	calls  []string
	writes int

	// dieAfter is how many writes the process makes before it dies.
	dieAfter *int
	watchCut bool
	watches  []*cutBody
	onWrite  func(method, path, body string) bool
}

// config is the administrator's, through this network.
func (n *network) config() *rest.Config {
	config := plane.Config()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return fixture.RoundTripper(func(r *http.Request) (*http.Response, error) { return n.roundTrip(inner, r) })
	})
	return config
}

func (n *network) roundTrip(inner http.RoundTripper, r *http.Request) (*http.Response, error) {
	body, err := peek(r)
	if err != nil {
		return nil, err
	}
	if response, err := n.before(r, body); response != nil || err != nil {
		return response, err
	}
	response, err := inner.RoundTrip(r)
	if err != nil || !feedsCache(r) {
		return response, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watchCut { // while this call was on its way
		_ = response.Body.Close()
		return nil, errCut
	}
	if !isWatch(r) {
		return response, nil
	}
	watch := &cutBody{ReadCloser: response.Body}
	n.watches = append(n.watches, watch)
	response.Body = watch
	return response, nil
}

func (n *network) before(r *http.Request, body string) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dieAfter != nil && n.writes >= *n.dieAfter {
		return nil, errCrashed
	}
	if n.watchCut && feedsCache(r) {
		return nil, errCut
	}
	n.calls = append(n.calls, describe(r))
	if r.Method == http.MethodGet {
		return nil, nil
	}
	n.writes++
	if n.onWrite != nil && n.onWrite(r.Method, r.URL.Path, body) {
		return forbidden(r), nil
	}
	return nil, nil
}

// cutWatches ends the watches and keeps the caches from starting others. Reads past the cache go through.
func (n *network) cutWatches() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watchCut = true
	for _, w := range n.watches {
		w.cut()
	}
	n.watches = nil
}

// since gives the calls after the first n, for the resources of whereabouts.
func (n *network) since(count int) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.calls[count:]), func(call string) bool {
		return strings.HasPrefix(call, "WATCH ") || !strings.Contains(call, " ")
	})
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.calls)
}

// describe is "VERB resource/name"; a call for something else has no space.
func describe(r *http.Request) string {
	_, rest, found := strings.Cut(r.URL.Path, "/whereabouts.cni.cncf.io/v1alpha1/namespaces/")
	_, resource, named := strings.Cut(rest, "/")
	if !found || !named {
		return r.Method + r.URL.Path
	}
	verb := r.Method
	switch {
	case isWatch(r):
		verb = "WATCH"
	case verb == http.MethodGet && !strings.Contains(resource, "/"):
		verb = "LIST"
	}
	return verb + " " + resource
}

func isWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

// feedsCache is true for the calls of an informer: the live lists of pools ask for metadata only.
func feedsCache(r *http.Request) bool {
	if isWatch(r) {
		return true
	}
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/ippools") &&
		!strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
}

// peek reads a body without taking it.
func peek(r *http.Request) (string, error) {
	if r.Body == nil {
		return "", nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return string(data), nil
}

func forbidden(r *http.Request) *http.Response {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not this one",
	}
	data, _ := json.Marshal(status) // a Status always encodes
	return &http.Response{
		StatusCode: http.StatusForbidden, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
	}
}

// cutBody is the body of a watch that can be ended from this side.
type cutBody struct {
	io.ReadCloser
	once sync.Once
}

func (b *cutBody) cut() { b.once.Do(func() { _ = b.ReadCloser.Close() }) }

// kill lets so many more writes through, and then nothing.
func (n *network) kill(after int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dieAfter = new(n.writes + after)
}
