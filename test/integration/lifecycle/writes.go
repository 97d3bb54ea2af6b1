// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

// writes keeps the writes of a manager. Events, leases and reviews are no part of a pod's cost, nor is what a cache that is behind leads to and
// the API server refuses as a conflict.
type writes struct {
	mu   sync.Mutex
	made []*write
}

type write struct{ call, body string }

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return fixture.RoundTripper(func(request *http.Request) (*http.Response, error) {
		isOther := func(part string) bool { return strings.Contains(request.URL.Path, part) }
		if request.Method == http.MethodGet || slices.ContainsFunc([]string{"/events", "/leases", "reviews"}, isOther) {
			return next.RoundTrip(request)
		}
		made := &write{call: request.Method + " " + request.URL.Path}
		if request.Body != nil {
			content, err := io.ReadAll(request.Body)
			if err != nil {
				return nil, err
			}
			request.Body, made.body = io.NopCloser(bytes.NewReader(content)), string(content)
		}
		w.mu.Lock()
		w.made = append(w.made, made) // before the call: its effect is seen before its response
		w.mu.Unlock()
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode == http.StatusConflict {
			w.mu.Lock()
			w.made = slices.DeleteFunc(w.made, func(m *write) bool { return m == made })
			w.mu.Unlock()
		}
		return response, err
	})
}

// about are the methods and paths of the writes that concern a pod.
func (w *writes) about(pod *corev1.Pod) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var calls []string
	for _, made := range w.made {
		if strings.Contains(made.call+made.body, string(pod.UID)) || strings.Contains(made.call, "/"+pod.Namespace+"/pods/"+pod.Name) {
			calls = append(calls, made.call)
		}
	}
	return calls
}
