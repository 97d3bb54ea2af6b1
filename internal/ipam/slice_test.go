// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const low, mid, high = "10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"

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
