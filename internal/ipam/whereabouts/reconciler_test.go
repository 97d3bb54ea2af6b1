// SPDX-License-Identifier: Apache-2.0

package whereabouts

import "testing"

func TestReconcilerShared(t *testing.T) {
	for name, tc := range map[string]struct {
		images []string
		want   bool
	}{
		"no image":                                     {nil, true},
		"no whereabouts image":                         {[]string{"ghcr.io/k8snetworkplumbingwg/multus-cni:v4.2.0"}, true},
		"the first version without it":                 {[]string{"ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4"}, false},
		"a later one":                                  {[]string{"ghcr.io/k8snetworkplumbingwg/whereabouts:0.10.0"}, false},
		"the last version with it":                     {[]string{"ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.3"}, true},
		"a version that is smaller as a number only":   {[]string{"x/whereabouts:v0.8.10"}, true},
		"a distribution's build":                       {[]string{"rancher/hardened-whereabouts:v0.9.4-build20260101"}, false},
		"a release candidate of the first without it":  {[]string{"x/whereabouts:v0.9.4-rc1"}, true},
		"a release candidate of a later one":           {[]string{"x/whereabouts:v0.9.5-rc1"}, false},
		"a tag with a digest":                          {[]string{"x/whereabouts:v0.9.4@sha256:00"}, false},
		"a digest alone":                               {[]string{"x/whereabouts@sha256:00"}, true},
		"latest":                                       {[]string{"x/whereabouts:latest"}, true},
		"no tag, from a registry with a port":          {[]string{"registry:5000/whereabouts"}, true},
		"a version, from a registry with a port":       {[]string{"registry:5000/whereabouts:v0.9.4"}, false},
		"a namespace of that name is no image of it":   {[]string{"whereabouts/other:v0.9.4"}, true},
		"one container of an old version, one of none": {[]string{"x/whereabouts:v0.9.4", "x/whereabouts:v0.9.2"}, true},
		"beside another image":                         {[]string{"x/proxy:v1", "x/whereabouts:v0.9.4"}, false},
		"two numbers":                                  {[]string{"x/whereabouts:v1.0"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := New(Options{}).ReconcilerShared(tc.images); got != tc.want {
				t.Errorf("ReconcilerShared(%q) is %t", tc.images, got)
			}
		})
	}
}
