// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// ErrBlocked is why a write did not leave the process. It is a bug in Holdfast: the write should have been withheld and reported before.
var ErrBlocked = errors.New("stopped before the API server, because no write of this kind may be made in mode Shadow; nothing was written. This is a bug in Holdfast: report it, " +
	"with the log of the manager")

// Guard adds a gate to a client configuration, and so to every client of it.
func Guard(config *rest.Config) {
	prefix := ""
	if host, err := url.Parse(config.Host); err == nil {
		prefix = strings.TrimSuffix(host.Path, "/")
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &gate{next: next, prefix: prefix}
	})
}

// gate lets reads through, and the writes on a list.
type gate struct {
	next http.RoundTripper
	// prefix precedes the paths of the API.
	prefix string
}

var resolver = &request.RequestInfoFactory{APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}}}

// RoundTrip makes the call, or stops it.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return g.next.RoundTrip(r)
	}
	bare := r.Clone(r.Context())
	bare.URL.Path = strings.TrimPrefix(r.URL.Path, g.prefix)
	info, err := resolver.NewRequestInfo(bare)
	if err == nil && info.IsResourceRequest && g.allows(info, r) {
		return g.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // a RoundTripper closes it, also where it fails
	}
	verb, resource := strings.ToLower(r.Method), "none"
	if err == nil && info.IsResourceRequest {
		verb, resource = info.Verb, info.Resource
	}
	metrics.ShadowBlocked.WithLabelValues(verb, resource).Inc()
	blocked := fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrBlocked)
	logf.Log.WithName("shadow").Error(blocked, "A write was stopped")
	return nil, blocked
}

// allows is the list of the writes in mode Shadow: what it reports in, what it needs to run, and what unprotects a pod that mode Guard protected.
func (g *gate) allows(info *request.RequestInfo, r *http.Request) bool {
	switch info.APIGroup {
	case v1alpha1.GroupVersion.Group, eventsv1.GroupName, coordinationv1.GroupName:
		return true // our own objects, events, and the leader's Lease
	case authenticationv1.GroupName, authorizationv1.GroupName:
		return info.Verb == "create" // for the metrics endpoint
	case admissionregistrationv1.GroupName:
		return info.Resource == "validatingwebhookconfigurations" // which lets the webhooks see node-scoped objects
	case corev1.GroupName:
		switch info.Resource {
		case "events":
			return true
		case "pods":
			return info.Verb == "patch" && (info.Subresource == "" || info.Subresource == "status") && onlyUnprotects(r)
		}
	}
	return false
}

// onlyUnprotects reports whether a patch of a pod names its UID and changes nothing but our finalizer, by removing it, or our label, by which the cache
// selects the pod.
func onlyUnprotects(r *http.Request) bool {
	metadata := patchedMetadata(r)
	if metadata["uid"] == nil {
		return false
	}
	for key, value := range metadata {
		switch key {
		case "uid":
		case "$deleteFromPrimitiveList/finalizers":
			var finalizers []string
			if json.Unmarshal(value, &finalizers) != nil || !slices.Equal(finalizers, []string{v1alpha1.Finalizer}) {
				return false
			}
		case "labels":
			var labels map[string]*string
			if json.Unmarshal(value, &labels) != nil || !slices.Equal(slices.Collect(maps.Keys(labels)), []string{v1alpha1.GuardedLabel}) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// patchedMetadata is the metadata in a patch that changes nothing else; nil for any other.
func patchedMetadata(r *http.Request) map[string]json.RawMessage {
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	var patch map[string]map[string]json.RawMessage
	if err != nil || json.Unmarshal(content, &patch) != nil || len(patch) != 1 {
		return nil
	}
	return patch["metadata"]
}
