// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// versions is the discovery of things.acme.io: what each version serves.
type versions struct {
	preferred string
	all       []string
	served    map[string]metav1.APIResource
	failing   error
}

func (d versions) Group(context.Context, string) (*metav1.APIGroup, error) {
	group := &metav1.APIGroup{PreferredVersion: metav1.GroupVersionForDiscovery{Version: d.preferred}}
	for _, v := range d.all {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{Version: v})
	}
	return group, d.failing
}

func (d versions) Resources(_ context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error) {
	if !slices.Contains(d.all, version.Version) {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version.Version)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "others"}, d.served[version.Version]}}, d.failing
}

func TestIn(t *testing.T) {
	things := metav1.APIResource{Name: "things", Kind: "Thing", Namespaced: true}
	both := versions{preferred: "v1", all: []string{"v2", "v1", "v1beta1"}, served: map[string]metav1.APIResource{"v1": things, "v2": things}}
	older := versions{preferred: "v2", all: []string{"v2", "v1"}, served: map[string]metav1.APIResource{"v1": things}}
	failing := versions{all: []string{"v1"}, failing: errors.New("too many requests")}
	cases := map[string]struct {
		api      versions
		versions []string
		want     []string
		fails    bool
	}{
		"any version: the preferred one first":         {api: both, versions: []string{"*"}, want: []string{"v1", "v2"}},
		"any version, though others are named":         {api: both, versions: []string{"v2", "*"}, want: []string{"v1", "v2"}},
		"those named that are served, in their order":  {api: both, versions: []string{"v3", "v1beta1", "v2", "v1"}, want: []string{"v2", "v1"}},
		"not in the preferred version, but in another": {api: older, versions: []string{"*"}, want: []string{"v1"}},
		"in none of the versions named":                {api: older, versions: []string{"v2"}},
		"the group cannot be read":                     {api: failing, versions: []string{"*"}, fails: true},
		"the version cannot be read":                   {api: failing, versions: []string{"v1"}, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got, want []Resource
			for found, err := range In(t.Context(), tc.api, schema.GroupResource{Group: "acme.io", Resource: "things"}, tc.versions) {
				if err != nil {
					if !tc.fails {
						t.Error(err)
					}
					return
				}
				got = append(got, found)
			}
			for _, version := range tc.want {
				want = append(want, Resource{Kind: "Thing", Namespaced: true,
					GroupVersionResource: schema.GroupVersionResource{Group: "acme.io", Version: version, Resource: "things"}})
			}
			if diff := cmp.Diff(want, got); diff != "" || tc.fails {
				t.Errorf("expected an error: %t (-want +got)\n%s", tc.fails, diff)
			}
		})
	}
}

func TestASubresourceForTheStatusIsSeen(t *testing.T) {
	list := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "things/status", Kind: "Thing"}, {Name: "things", Kind: "Thing"}, {Name: "others"}}}
	if got := find(list, schema.GroupVersionResource{Resource: "things"}); !got.Status || got.Kind != "Thing" {
		t.Errorf("got %+v", got)
	}
	if got := find(list, schema.GroupVersionResource{Resource: "others"}); got.Status {
		t.Errorf("got %+v", got)
	}
}
