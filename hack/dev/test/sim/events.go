// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"net/http"
	"strings"
)

// unheardEvents is a way to the server that answers writes of Events itself: nobody reads them, and they are written at any time, so that versions
// would be given out in an order by chance.
type unheardEvents struct{ http.RoundTripper }

// RoundTrip serves a request.
func (u unheardEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/") {
		return u.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: r.Body, ContentLength: r.ContentLength, Request: r}, nil
}
