// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
)

const (
	low, mid, high = "10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"
)

// sliced is a SlicePool of these slices.
func sliced(slices ...Slice) *SlicePool {
	return &SlicePool{Namespace: "kube-system", Name: "net", Range: "10.0.0.0/24", Size: "/26", Slices: slices}
}

func TestTakenSlices(t *testing.T) {
	before := sliced(Slice{"a", low}, Slice{"b", mid}, Slice{"", high})
	for name, tc := range map[string]struct {
		before, after *SlicePool
		want          []TakenSlice
	}{
		"nothing changes": {after: before},
		"a free slice is given away": {
			after: sliced(Slice{"a", low}, Slice{"b", mid}, Slice{"c", high}),
		},
		"a slice is cleared": {
			after: sliced(Slice{"", low}, Slice{"b", mid}, Slice{"c", high}),
			want:  []TakenSlice{{Slice{"a", low}, 0, ""}},
		},
		"a slice is given to another node": {
			after: sliced(Slice{"c", low}, Slice{"b", mid}, Slice{"", high}),
			want:  []TakenSlice{{Slice{"a", low}, 0, "c"}},
		},
		"two nodes swap": {
			after: sliced(Slice{"b", low}, Slice{"a", mid}, Slice{"", high}),
			want:  []TakenSlice{{Slice{"a", low}, 0, "b"}, {Slice{"b", mid}, 1, "a"}},
		},
		"the order is another one": {
			after: sliced(Slice{"", high}, Slice{"b", mid}, Slice{"a", low}),
		},
		"a slice is cleared and has another place": {
			after: sliced(Slice{"", high}, Slice{"b", mid}, Slice{"", low}),
			want:  []TakenSlice{{Slice{"a", low}, 2, ""}},
		},
		"a slice is dropped": {
			after: sliced(Slice{"b", mid}, Slice{"", high}),
			want:  []TakenSlice{{Slice{"a", low}, -1, ""}},
		},
		"everything is dropped": {
			after: sliced(),
			want:  []TakenSlice{{Slice{"a", low}, -1, ""}, {Slice{"b", mid}, -1, ""}},
		},
		"a slice is written a second time, for another node": {
			after: sliced(Slice{"a", low}, Slice{"b", mid}, Slice{"", high}, Slice{"c", low}),
			want:  []TakenSlice{{Slice{"a", low}, 3, "c"}},
		},
		"a slice stands twice already": {
			before: sliced(Slice{"a", low}, Slice{"b", low}),
			after:  sliced(Slice{"a", low}, Slice{"b", low}),
		},
		"the size is another one": {
			after: &SlicePool{Range: "10.0.0.0/24", Size: "/25", Slices: []Slice{{"", low}}},
		},
		"the range is another one": {
			after: &SlicePool{Range: "10.0.1.0/24", Size: "/26", Slices: []Slice{{"", low}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.before == nil {
				tc.before = before
			}
			if diff := cmp.Diff(tc.want, TakenSlices(tc.before, tc.after)); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeepSlices(t *testing.T) {
	kept := []TakenSlice{{Slice{"a", low}, 1, "c"}, {Slice{"b", mid}, -1, ""}}
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
	missing := []TakenSlice{{Slice{"a", low}, -1, ""}, {Slice{"b", mid}, -1, ""}}
	const all = `{"status":{"allocations":[{"nodeName":"a","sliceRange":"10.0.0.0/26"},{"nodeName":"b","sliceRange":"10.0.0.64/26"}]}}`
	for name, object := range map[string]string{
		"an empty list": `{"status":{"allocations":[]}}`, "no list": `{"status":{}}`, "null": `{"status":{"allocations":null}}`, "no status": `{}`,
	} {
		t.Run(name, func(t *testing.T) { checkKept(t, object, missing, all) })
	}
	if patch := KeepSlices(sliced(Slice{"", low}), nil); patch != nil {
		t.Errorf("nothing is kept, and the patch is %v", patch)
	}
}

// checkKept applies the patch as the API server does.
func checkKept(t *testing.T, object string, kept []TakenSlice, want string) {
	t.Helper()
	after, err := DecodeSlicePool([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(KeepSlices(after, kept))
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
	pool, err := DecodeSlicePool([]byte(`{"metadata":{"namespace":"kube-system","name":"net","uid":"u","resourceVersion":"7"},
		"spec":{"range":"10.0.0.0/24","sliceSize":"/26"},"status":{"allocations":[{"nodeName":"a","sliceRange":"10.0.0.0/26"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &SlicePool{Namespace: "kube-system", Name: "net", UID: "u", ResourceVersion: "7", Range: "10.0.0.0/24", Size: "/26", Slices: []Slice{{"a", low}}}
	if diff := cmp.Diff(want, pool); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	if _, err := DecodeSlicePool([]byte(`{"spec":[]}`)); err == nil {
		t.Error("a NodeSlicePool that cannot be read is no error")
	}
}
