// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"errors"
	"slices"
	"testing"

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

func TestDiscover(t *testing.T) {
	things := metav1.APIResource{Name: "things", Kind: "Thing", Namespaced: true}
	both := versions{preferred: "v1", all: []string{"v2", "v1", "v1beta1"}, served: map[string]metav1.APIResource{"v1": things, "v2": things}}
	older := versions{preferred: "v2", all: []string{"v2", "v1"}, served: map[string]metav1.APIResource{"v1": things}}
	failing := versions{all: []string{"v1"}, failing: errors.New("too many requests")}
	cases := map[string]struct {
		discovery versions
		versions  []string
		want      string
		wait      string
	}{
		"any version: the preferred one":               {discovery: both, versions: []string{"*"}, want: "v1"},
		"any version, though others are named":         {discovery: both, versions: []string{"v2", "*"}, want: "v1"},
		"the first one named that is served":           {discovery: both, versions: []string{"v3", "v1beta1", "v2", "v1"}, want: "v2"},
		"not in the preferred version, but in another": {discovery: older, versions: []string{"*"}, want: "v1"},
		"in none of the versions named":                {discovery: older, versions: []string{"v2"}, wait: "the API server serves no things.acme.io in version v2"},
		"the group cannot be read":                     {discovery: failing, versions: []string{"*"}, wait: "discovering API group acme.io: too many requests"},
		"the version cannot be read":                   {discovery: failing, versions: []string{"v1"}, wait: "discovering acme.io/v1: too many requests"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := discover(t.Context(), tc.discovery, schema.GroupResource{Group: "acme.io", Resource: "things"}, tc.versions)
			if tc.wait != "" {
				requireObstacle(t, err, tc.wait)
				return
			}
			want := served{GroupVersionResource: schema.GroupVersionResource{Group: "acme.io", Version: tc.want, Resource: "things"}, kind: "Thing", namespaced: true}
			if err != nil || got != want {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}
