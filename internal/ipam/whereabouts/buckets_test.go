// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"slices"
	"testing"
)

// TestABucketIsReadByItsTrueKeys: of the values in one bucket, a look-up finds those with its key, and no other one is erased with them.
func TestABucketIsReadByItsTrueKeys(t *testing.T) {
	type value struct{ key, n int }
	b := newBuckets(func(v value, key int) bool { return v.key == key })
	one, other := 1, 2
	for b.of(one) != b.of(other) {
		other++
	}
	first, second, third := value{one, 1}, value{other, 2}, value{one, 3}
	for _, v := range []value{first, second, third} {
		b.insert(v.key, v)
	}
	if found := b.find(one); !slices.Equal(found, []value{first, third}) {
		t.Errorf("found %v, want the two of key %d in their order", found, one)
	}
	b.erase(one, func(v value) bool { return v == first })
	if found := slices.Concat(b.find(one), b.find(other)); !slices.Equal(found, []value{third, second}) {
		t.Errorf("after one was erased, found %v", found)
	}
	b.insert(0, value{})
	if found := b.find(0); len(found) > 0 {
		t.Errorf("the empty key finds %v", found)
	}
}
