// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
)

func TestAttachments(t *testing.T) {
	type annotations = map[string]string
	networks := func(value string) annotations { return annotations{NetworksAnnotation: value} }
	one := []Attachment{{Namespace: "apps", Name: "blue"}}

	cases := map[string]struct {
		annotations     annotations
		multusNamespace string
		want            []Attachment
		malformed       []string // a part of each error
	}{
		"no annotations":                                {},
		"other annotations":                             {annotations: annotations{"example.com/networks": "blue"}},
		"an empty networks annotation":                  {annotations: networks("")},
		"an empty JSON list":                            {annotations: networks("[]")},
		"a name":                                        {annotations: networks("blue"), want: one},
		"a name with white space":                       {annotations: networks("  blue "), want: one},
		"a name with dots in JSON":                      {annotations: networks(`[{"name":"blue.v1"}]`), want: []Attachment{{Namespace: "apps", Name: "blue.v1"}}},
		"the word null is a name in the comma form":     {annotations: networks("null"), want: []Attachment{{Namespace: "apps", Name: "null"}}},
		"unknown fields in JSON":                        {annotations: networks(`[{"name":"blue","color":"blue"}]`), want: one},
		"every other field that Multus knows":           {annotations: networks(`[{"name":"blue","ips":["10.0.0.1/24"],"mac":"02:00:00:00:00:01","infiniband-guid":"","portMappings":[{"hostPort":1,"containerPort":2}],"bandwidth":{"ingressRate":1},"cni-args":{"a":{"b":1}},"default-route":["10.0.0.254"],"ipam-claim-reference":"c"}]`), want: one},
		"the same network twice is two attachments":     {annotations: networks("blue,blue"), want: append(one, one...)},
		"JSON names a namespace and an interface":       {annotations: networks(`[{"name":"blue","namespace":"nets","interface":"eth7"}]`), want: []Attachment{{Namespace: "nets", Name: "blue", Interface: "eth7"}}},
		"an element that is null":                       {annotations: networks(`[{"name":"blue"},null]`), malformed: []string{"element 1 of the list is null"}},
		"a list of null":                                {annotations: networks(`[null]`), malformed: []string{"element 0 of the list is null"}},
		"a JSON object in place of the list":            {annotations: networks(`{"name":"blue"}`), malformed: []string{"cannot be read"}},
		"a JSON string in place of the list":            {annotations: networks(`"blue"`), malformed: []string{"cannot be read"}},
		"JSON that ends too early":                      {annotations: networks(`[{"name":"blue"`), malformed: []string{"cannot be read"}},
		"JSON with text behind it":                      {annotations: networks(`[{"name":"blue"}] x`), malformed: []string{"cannot be read"}},
		"JSON with a field of the wrong type":           {annotations: networks(`[{"name":7}]`), malformed: []string{"cannot be read"}},
		"JSON with no name":                             {annotations: networks(`[{"namespace":"nets"}]`), malformed: []string{"element 0: no network is named"}},
		"JSON with a path for a name":                   {annotations: networks(`[{"name":"../../pods/x"}]`), malformed: []string{`"../../pods/x" is no name`}},
		"JSON with a path for a namespace":              {annotations: networks(`[{"name":"blue","namespace":"a/b"}]`), malformed: []string{`"a/b" is no name of a namespace`}},
		"one bad element does not hide the others":      {annotations: networks(`[{"name":"blue"},{"name":"B"}]`), want: one, malformed: []string{`element 1: "B" is no name`}},
		"an empty item between commas":                  {annotations: networks("blue,,"), want: one, malformed: []string{"element 1: no network", "element 2: no network"}},
		"only white space":                              {annotations: networks("  "), malformed: []string{"element 0: no network is named"}},
		"upper case in the comma form":                  {annotations: networks("Blue"), malformed: []string{`"Blue" is no name`}},
		"two slashes":                                   {annotations: networks("a/b/c"), malformed: []string{`"b/c" is no name`}},
		"two at signs":                                  {annotations: networks("a@b@c"), malformed: []string{`"b@c" is no name`}},
		"a default network without a namespace":         {annotations: annotations{DefaultNetworkAnnotation: "base"}, want: []Attachment{{Namespace: "kube-system", Name: "base", Default: true}}},
		"a default network where Multus has its own":    {annotations: annotations{DefaultNetworkAnnotation: "base"}, multusNamespace: "multus", want: []Attachment{{Namespace: "multus", Name: "base", Default: true}}},
		"a default network in JSON":                     {annotations: annotations{DefaultNetworkAnnotation: `[{"name":"base","namespace":"nets"}]`}, want: []Attachment{{Namespace: "nets", Name: "base", Default: true}}},
		"an empty default network":                      {annotations: annotations{DefaultNetworkAnnotation: ""}, malformed: []string{DefaultNetworkAnnotation}},
		"an empty list for the default network":         {annotations: annotations{DefaultNetworkAnnotation: "[]"}, malformed: []string{"names 0 networks"}},
		"a malformed default network keeps the others":  {annotations: annotations{DefaultNetworkAnnotation: "[", NetworksAnnotation: "blue"}, want: one, malformed: []string{"cannot be read"}},
		"a malformed list keeps the default network":    {annotations: annotations{DefaultNetworkAnnotation: "base", NetworksAnnotation: "["}, want: []Attachment{{Namespace: "kube-system", Name: "base", Default: true}}, malformed: []string{"cannot be read"}},
		"the comma form with namespaces and interfaces": {annotations: networks("nets/blue@eth1, red@eth2"), want: []Attachment{{Namespace: "nets", Name: "blue", Interface: "eth1"}, {Namespace: "apps", Name: "red", Interface: "eth2"}}},
		"two default networks": {
			annotations: annotations{DefaultNetworkAnnotation: "a,b"},
			want:        []Attachment{{Namespace: "kube-system", Name: "a", Default: true}, {Namespace: "kube-system", Name: "b", Default: true}},
			malformed:   []string{"names 2 networks, expected exactly one"},
		},
		"the default network comes first": {
			annotations: annotations{NetworksAnnotation: "blue", DefaultNetworkAnnotation: "base"},
			want:        []Attachment{{Namespace: "kube-system", Name: "base", Default: true}, {Namespace: "apps", Name: "blue"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, malformed := Attachments(tc.annotations, "apps", tc.multusNamespace)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("attachments (-want +got):\n%s", diff)
			}
			checkErrors(t, malformed, tc.malformed)
		})
	}
}

// checkErrors wants one error per part, in order, that contains it.
func checkErrors(t *testing.T, got []error, parts []string) {
	t.Helper()
	if len(got) != len(parts) {
		t.Fatalf("got the errors %v, want %d that say %q", got, len(parts), parts)
	}
	for i, err := range got {
		if !strings.Contains(err.Error(), parts[i]) {
			t.Errorf("error %d is %q, want %q in it", i, err, parts[i])
		}
	}
}

// A pod means to Holdfast what it means to Multus: the client's own parser is the reference.
func TestTheCommaFormIsReadAsTheClientReadsIt(t *testing.T) {
	parts := []string{"", "a", "a-b", "-a", "a-", "A", "a.b", "é", "a b", " a ", "0"}
	values := []string{"a,b", "a/b/c", "a@b@c", "a@b/c", "a/b@c,d@e", ",", "a,,b"}
	for _, x := range parts {
		for _, y := range parts {
			values = append(values, x+"/"+y, x+"@"+y, x+","+y, x+"/a@"+y)
		}
	}
	for _, value := range values {
		got, err := commaElements(value)
		want, wantErr := nadutils.ParseNetworkAnnotation(value, "")
		if value == "" {
			continue // Attachments asks no parser then
		}
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%q: got the error %v, want one like %v", value, err, wantErr)
			continue
		}
		for i := range got {
			if diff := cmp.Diff(*want[i], got[i]); err == nil && diff != "" {
				t.Errorf("%q, element %d (-want +got):\n%s", value, i, diff)
			}
		}
	}
}
