// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// withoutEvents is a transport that responds to writes of Events itself and discards them. The event broadcaster writes them at any time, so that they
// would take resource versions from other objects in a random order (docs/decisions/0190).
type withoutEvents struct{ http.RoundTripper }

// RoundTrip serves a request.
func (t withoutEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/") {
		if r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType) {
			r.Header.Set("Accept", runtime.ContentTypeJSON) // controller-runtime reads nothing else from an apply
		}
		return t.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: r.Body, ContentLength: r.ContentLength, Request: r}, nil
}
