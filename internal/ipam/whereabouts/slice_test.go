// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

const (
	low, mid, high = "10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"
)

// sliced is a SlicePool of these slices.
func sliced(slices ...ipam.Slice) *ipam.SlicePool {
	return &ipam.SlicePool{Namespace: "kube-system", Name: "net", Range: "10.0.0.0/24", Size: "/26", Slices: slices}
}

func TestKeepSlices(t *testing.T) {
	kept := []ipam.TakenSlice{{Slice: ipam.Slice{Node: "a", Range: low}, Index: 1, By: "c"}, {Slice: ipam.Slice{Node: "b", Range: mid}, Index: -1}}
	for name, tc := range map[string]struct{ object, want string }{
		"names go back to their places, and what is missing to the end": {
			object: `{"status":{"allocations":[{"nodeName":"d","sliceRange":"10.0.0.128/26"},{"nodeName":"c","sliceRange":"10.0.0.0/26"}]}}`,
			want: `{"status":{"allocations":[{"nodeName":"d","sliceRange":"10.0.0.128/26"},{"nodeName":"a","sliceRange":"10.0.0.0/26"},` +
				`{"nodeName":"b","sliceRange":"10.0.0.64/26"}]}}`,
		},
		"a name that is not there is put there": {
			object: `{"status":{"allocations":[{"nodeName":"","sliceRange":"10.0.0.128/26"},{"sliceRange":"10.0.0.0/26"}]}}`,
			want: `{"status":{"allocations":[{"nodeName":"","sliceRange":"10.0.0.128/26"},{"nodeName":"a","sliceRange":"10.0.0.0/26"},` +
				`{"nodeName":"b","sliceRange":"10.0.0.64/26"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) { checkKept(t, tc.object, kept, tc.want) })
	}
	missing := []ipam.TakenSlice{{Slice: ipam.Slice{Node: "a", Range: low}, Index: -1}, {Slice: ipam.Slice{Node: "b", Range: mid}, Index: -1}}
	const all = `{"status":{"allocations":[{"nodeName":"a","sliceRange":"10.0.0.0/26"},{"nodeName":"b","sliceRange":"10.0.0.64/26"}]}}`
	for name, object := range map[string]string{
		"an empty list": `{"status":{"allocations":[]}}`, "no list": `{"status":{}}`, "null": `{"status":{"allocations":null}}`, "no status": `{}`,
	} {
		t.Run(name, func(t *testing.T) { checkKept(t, object, missing, all) })
	}
	if patch := New(Options{}).KeepSlices(sliced(ipam.Slice{Node: "", Range: low}), nil); patch != nil {
		t.Errorf("nothing is kept, and the patch is %v", patch)
	}
}

// checkKept applies the patch as the API server does.
func checkKept(t *testing.T, object string, kept []ipam.TakenSlice, want string) {
	t.Helper()
	after, err := New(Options{}).DecodeSlicePool([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(New(Options{}).KeepSlices(after, kept))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	if !jsonpatch.Equal(patched, []byte(want)) {
		t.Errorf("got %s, want %s", patched, want)
	}
}

func TestDecodeSlicePool(t *testing.T) {
	pool, err := New(Options{}).DecodeSlicePool([]byte(`{"metadata":{"namespace":"kube-system","name":"net","uid":"u","resourceVersion":"7"},
		"spec":{"range":"10.0.0.0/24","sliceSize":"/26"},"status":{"allocations":[{"nodeName":"a","sliceRange":"10.0.0.0/26"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &ipam.SlicePool{Namespace: "kube-system", Name: "net", UID: "u", ResourceVersion: "7", Range: "10.0.0.0/24", Size: "/26", Slices: []ipam.Slice{{Node: "a", Range: low}}}
	if diff := cmp.Diff(want, pool); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	if _, err := New(Options{}).DecodeSlicePool([]byte(`{"spec":[]}`)); err == nil {
		t.Error("a NodeSlicePool that cannot be read is no error")
	}
}
