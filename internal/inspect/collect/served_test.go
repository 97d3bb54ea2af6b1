// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

// An API server, as far as discovery goes: answers by path. What is not there is answered as the real one answers it.
type answers map[string]answer

type answer struct {
	code int
	body any
}

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := a[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(found.code)
	_ = json.NewEncoder(w).Encode(found.body) // a test that reads nothing fails
}

type jsonObject = map[string]any

func status(code int, reason string) answer {
	return answer{code, jsonObject{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "the server says " + reason, "code": code}}
}

// groups is the answer of /apis: each group with its versions.
func groups(all ...string) answer {
	list := []jsonObject{}
	for _, text := range all {
		name, rest, _ := strings.Cut(text, " ")
		var versions []jsonObject
		for _, v := range strings.Fields(rest) {
			versions = append(versions, jsonObject{"groupVersion": name + "/" + v, "version": v})
		}
		list = append(list, jsonObject{"name": name, "versions": versions, "preferredVersion": versions[0]})
	}
	return answer{200, jsonObject{"kind": "APIGroupList", "apiVersion": "v1", "groups": list}}
}

// resources is the answer of /apis/GROUP/VERSION; each is "name Kind".
func resources(groupVersion string, all ...string) answer {
	list := []jsonObject{}
	for _, text := range all {
		name, kind, _ := strings.Cut(text, " ")
		list = append(list, jsonObject{"name": name, "singularName": strings.ToLower(kind), "kind": kind, "verbs": []string{"get", "list"}})
	}
	return answer{200, jsonObject{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": list}}
}

const definitionPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipallocations.holdfast.dev"

// without is a cluster that serves nothing of ours.
func without() answers {
	return answers{
		"/api":                          {200, jsonObject{"kind": "APIVersions", "versions": []string{"v1"}}},
		"/apis":                         groups("apiextensions.k8s.io v1"),
		"/apis/apiextensions.k8s.io/v1": resources("apiextensions.k8s.io/v1", "customresourcedefinitions CustomResourceDefinition"),
		definitionPath:                  status(404, "NotFound"),
	}
}

func TestRecordsWhereTheTypeIsNotServed(t *testing.T) {
	both := groups("apiextensions.k8s.io v1", "holdfast.dev v1alpha1")
	cases := map[string]struct {
		change func(answers)
		// none: there are none, for certain. Otherwise the error has this text.
		none bool
		err  string
	}{
		"no group, no definition: there are none": {change: func(answers) {}, none: true},
		"the group is there without the type: there are none": {change: func(a answers) {
			a["/apis"] = both
			a["/apis/holdfast.dev/v1alpha1"] = resources("holdfast.dev/v1alpha1", "noderesourcepolicies NodeResourcePolicy")
		}, none: true},
		"definitions that may not be read: discovery decides": {change: func(a answers) { a[definitionPath] = status(403, "Forbidden") }, none: true},
		"another version alone may have objects": {change: func(a answers) {
			a["/apis"] = groups("apiextensions.k8s.io v1", "holdfast.dev v1beta1")
			a["/apis/holdfast.dev/v1beta1"] = resources("holdfast.dev/v1beta1", "ipallocations IPAllocation")
		}, err: "it serves ipallocations.holdfast.dev in version v1beta1, and this command reads v1alpha1"},
		"this version has another type, and another version has ours": {change: func(a answers) {
			a["/apis"] = groups("apiextensions.k8s.io v1", "holdfast.dev v1beta1 v1alpha1")
			a["/apis/holdfast.dev/v1beta1"] = resources("holdfast.dev/v1beta1", "ipallocations IPAllocation")
			a["/apis/holdfast.dev/v1alpha1"] = resources("holdfast.dev/v1alpha1", "noderesourcepolicies NodeResourcePolicy")
		}, err: "in version v1beta1"},
		"a definition that is not served may have objects": {change: func(a answers) {
			a[definitionPath] = answer{200, jsonObject{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": jsonObject{"name": "ipallocations.holdfast.dev"}}}
		}, err: "there is a CustomResourceDefinition ipallocations.holdfast.dev, and it is not served"},
		"the groups cannot be listed":     {change: func(a answers) { a["/apis"] = status(503, "ServiceUnavailable") }, err: "failed to get server groups"},
		"the groups may not be listed":    {change: func(a answers) { a["/apis"] = status(403, "Forbidden") }, err: "failed to get server groups"},
		"the list of groups is not there": {change: func(a answers) { delete(a, "/apis") }, err: "the server could not find the requested resource"},
		"the list of groups is empty":     {change: func(a answers) { a["/apis"] = groups() }, err: "list"},
		"the group's types cannot be listed": {change: func(a answers) {
			a["/apis"] = both
			a["/apis/holdfast.dev/v1alpha1"] = status(503, "ServiceUnavailable")
		}, err: "ServiceUnavailable"},
		"the group is listed, and its types are not there": {change: func(a answers) { a["/apis"] = both }, err: "could not find out whether the API server serves ipallocations.holdfast.dev"},
		"definitions cannot be read":                       {change: func(a answers) { a[definitionPath] = status(500, "InternalError") }, err: "looking for the CustomResourceDefinition"},
		"another server responds for definitions":          {change: func(a answers) { delete(a, definitionPath) }, err: "looking for the CustomResourceDefinition"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			paths := without()
			tc.change(paths)
			server := httptest.NewServer(paths)
			defer server.Close()
			c, err := New(&rest.Config{Host: server.URL}, "holdfast-system", IPAM{AddToScheme: whereabouts.AddToScheme}, nil)
			if err != nil {
				t.Fatal(err)
			}
			records, err := c.Records(t.Context())
			if len(records) != 0 || err == nil {
				t.Fatalf("got %d records and error %v, want an error", len(records), err)
			}
			if isNotServed(err) != tc.none {
				t.Errorf("error %q means none: %t, want %t", err, !tc.none, tc.none)
			}
			if !tc.none && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %q, want one with %q", err, tc.err)
			}
			served, err := c.served(t.Context(), v1alpha1.GroupVersion.WithResource("ipallocations"))
			if served || (err == nil) != tc.none {
				t.Errorf("served is %t with error %v, want none: %t", served, err, tc.none)
			}
		})
	}
}

// The client's mapper takes aggregated discovery, in which a group that could not be described is only marked as stale, for a type that
// is not there.
func TestAMapperThatKnowsLessThanTheServer(t *testing.T) {
	paths := without()
	paths["/apis"] = groups("apiextensions.k8s.io v1", "holdfast.dev v1alpha1")
	paths["/apis/holdfast.dev/v1alpha1"] = resources("holdfast.dev/v1alpha1", "ipallocations IPAllocation")
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked := r.Header.Get("Accept"); !strings.Contains(asked, "APIGroupDiscoveryList") || r.URL.Path != "/apis" && r.URL.Path != "/api" {
			paths.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", aggregated)
		list := jsonObject{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []jsonObject{}}
		if r.URL.Path == "/apis" {
			list["items"] = []jsonObject{
				{"metadata": jsonObject{"name": "apiextensions.k8s.io"}, "versions": []jsonObject{{"version": "v1", "freshness": "Current", "resources": []jsonObject{{
					"resource": "customresourcedefinitions", "responseKind": jsonObject{"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"},
					"scope": "Cluster", "singularResource": "customresourcedefinition", "verbs": []string{"get"}}}}}},
				{"metadata": jsonObject{"name": "holdfast.dev"}, "versions": []jsonObject{{"version": "v1alpha1", "freshness": "Stale"}}},
			}
		}
		_ = json.NewEncoder(w).Encode(list) // a test that reads nothing fails
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL}, "holdfast-system", IPAM{AddToScheme: whereabouts.AddToScheme}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Records(t.Context()); err == nil || isNotServed(err) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("got %v, want an error that is not \"none\"", err)
	}
}
