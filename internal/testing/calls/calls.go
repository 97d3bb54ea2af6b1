// SPDX-License-Identifier: Apache-2.0

// Package calls reads HTTP requests of a client as calls of the Kubernetes API.
package calls

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Call is a request in the terms of the Kubernetes API.
type Call struct {
	// Verb is that of RBAC: get, list, watch, create, update, patch, delete, deletecollection; for a path that is no
	// resource, as in discovery, the HTTP method in lower case.
	Verb string
	// Resource is empty for a path that is no resource.
	Resource schema.GroupResource
	// Subresource, Namespace and Name are empty where the path has none.
	Subresource, Namespace, Name string
	// Path is that of the URL.
	Path string
}

// String is the verb and the path.
func (c Call) String() string { return c.Verb + " " + c.Path }

// resolver reads a request as the API server does.
var resolver = &request.RequestInfoFactory{
	APIPrefixes:          map[string]sets.Empty{"api": {}, "apis": {}},
	GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}},
}

// Of reads a request. One that cannot be read is a call without a resource.
func Of(r *http.Request) Call {
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		return Call{Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	}
	call := Call{Verb: info.Verb, Path: info.Path, Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name}
	if info.IsResourceRequest {
		call.Resource = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	}
	return call
}
