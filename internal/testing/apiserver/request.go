// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/user"
)

// request is a call, parsed.
type request struct {
	http                       *http.Request
	verb, namespace, name, sub string
	kind                       *Kind
	review                     bool // a SelfSubjectReview, which is no stored kind
	query                      url.Values
	body                       []byte
	user                       user.Info
	client                     string
}

func (c *Client) parse(r *http.Request) (*request, error) {
	q := &request{http: r, query: r.URL.Query(), user: c.identity.User, client: c.identity.Client}
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if q.body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.Method == http.MethodPost && r.URL.Path == "/apis/authentication.k8s.io/v1/selfsubjectreviews" {
		q.review, q.verb = true, "create"
		return q, nil
	}
	if err := q.locate(c.server, strings.Split(strings.Trim(r.URL.Path, "/"), "/")); err != nil {
		return nil, err
	}
	q.verb = q.verbOf(r.Method)
	return q, nil
}

// locate finds what the path names.
func (q *request) locate(s *Server, parts []string) error {
	group := ""
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[1:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, parts = parts[1], parts[2:]
	default:
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, false)
	}
	version, parts := parts[0], parts[1:]
	if len(parts) >= 3 && parts[0] == "namespaces" && s.kinds[group+"/"+version+"/"+parts[2]] != nil {
		q.namespace, parts = parts[1], parts[2:]
	}
	if q.kind = s.kinds[group+"/"+version+"/"+parts[0]]; q.kind == nil {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, false)
	}
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.sub = parts[2]
	}
	return q.checkSubresource()
}

func (q *request) checkSubresource() error {
	known := q.sub == "" || q.sub == "status" && q.kind.HasStatus || q.kind.Plural == "pods" && slices.Contains([]string{"binding", "eviction"}, q.sub)
	if !known {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, false)
	}
	return nil
}

func (q *request) verbOf(method string) string {
	watches := q.query.Get("watch") == "true" || q.query.Get("watch") == "1"
	switch {
	case method == http.MethodGet && q.name != "":
		return "get"
	case method == http.MethodGet && watches:
		return "watch"
	case method == http.MethodGet:
		return "list"
	}
	return map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[method]
}

func (q *request) call() Call {
	resource := "selfsubjectreviews"
	if q.kind != nil {
		resource = q.kind.Plural
	}
	return Call{Client: q.client, Verb: q.verb, Resource: resource, Namespace: q.namespace, Name: q.name, Subresource: q.sub, Body: q.body,
		Selector: sortedTerms(q.query.Get("labelSelector"), q.query.Get("fieldSelector"))}
}

// sortedTerms are the terms of selectors in order: clients write them in the order of a map.
func sortedTerms(selectors ...string) string {
	var terms []string
	for _, s := range selectors {
		if s != "" {
			terms = append(terms, strings.Split(s, ",")...)
		}
	}
	slices.Sort(terms)
	return strings.Join(terms, ",")
}

func (q *request) isDryRun() bool { return q.query.Get("dryRun") == metav1.DryRunAll }

// manager is the name under which the request owns fields.
func (q *request) manager() string {
	if m := q.query.Get("fieldManager"); m != "" {
		return m
	}
	name, _, _ := strings.Cut(q.http.UserAgent(), "/")
	return name
}

func (q *request) notFound() error { return apierrors.NewNotFound(q.kind.resource(), q.name) }

// decodeBody reads an object, and checks that it is the one that the path names.
func (q *request) decodeBody() (object, error) {
	var o object
	if err := utiljson.Unmarshal(q.body, &o); err != nil || o == nil {
		return nil, apierrors.NewBadRequest("the object provided is unrecognized: it is no JSON object")
	}
	return q.address(o)
}

// address completes and checks kind, namespace and name of an object that a client sent.
func (q *request) address(o object) (object, error) {
	for field, want := range map[string]string{"kind": q.kind.Kind, "apiVersion": q.kind.GroupVersion().String()} {
		if got, _ := o[field].(string); got != "" && got != want {
			return nil, apierrors.NewBadRequest("the object provided has the " + field + " " + got + ", expected " + want)
		}
	}
	metadata, ok := o["metadata"].(object)
	if !ok {
		metadata = object{}
		o["metadata"] = metadata
	}
	if namespace, _ := metadata["namespace"].(string); namespace != "" && namespace != q.namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if q.namespace != "" {
		metadata["namespace"] = q.namespace
	}
	if name, _ := metadata["name"].(string); q.name != "" && name != "" && name != q.name {
		return nil, apierrors.NewBadRequest("the name of the object (" + name + ") does not match the name on the URL (" + q.name + ")")
	}
	if q.name != "" {
		metadata["name"] = q.name
	}
	return q.kind.normalizeOrRefuse(o)
}

func (k *Kind) normalizeOrRefuse(o object) (object, error) {
	out, err := k.normalize(o)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

// userInfo is the user as reviews carry it.
func (q *request) userInfo() authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: q.user.GetName(), UID: q.user.GetUID(), Groups: q.user.GetGroups()}
	for key, values := range q.user.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// encode renders an object as the request accepts it: whole, or its metadata.
func (q *request) encode(o *stored) ([]byte, error) {
	if q.wantsProtobuf() {
		message, err := o.message()
		if err != nil {
			return nil, err
		}
		return q.kind.envelope(q.kind.Kind, message)
	}
	if !strings.Contains(q.http.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return o.text()
	}
	return json.Marshal(object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o.object["metadata"]})
}
