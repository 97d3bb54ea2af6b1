// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"hash/maphash"
	"slices"
)

// buckets finds values by keys. Several keys share one bucket, because a slice for each key takes several times the memory of its value.
type buckets[K comparable, V any] struct {
	seed maphash.Seed
	// has reports whether a value of the bucket has the key.
	has func(V, K) bool
	all map[uint64][]V
}

// bucketCount makes a bucket of 18 values with 150,000 entries.
const bucketCount = 8192

func newBuckets[K comparable, V any](has func(V, K) bool) *buckets[K, V] {
	return &buckets[K, V]{seed: maphash.MakeSeed(), has: has, all: map[uint64][]V{}}
}

func (b *buckets[K, V]) of(key K) uint64 { return maphash.Comparable(b.seed, key) % bucketCount }

// insert adds a value. The empty key is in no index: it is not a key that callers look up.
func (b *buckets[K, V]) insert(key K, value V) {
	var none K
	if bucket := b.of(key); key != none {
		b.all[bucket] = append(b.all[bucket], value)
	}
}

func (b *buckets[K, V]) erase(key K, is func(V) bool) {
	bucket := b.of(key)
	if b.all[bucket] = slices.DeleteFunc(b.all[bucket], is); len(b.all[bucket]) == 0 {
		delete(b.all, bucket)
	}
}

// find returns the values with a key in the order in which they were inserted.
func (b *buckets[K, V]) find(key K) []V {
	var none K
	if key == none {
		return nil
	}
	var found []V
	for _, value := range b.all[b.of(key)] {
		if b.has(value, key) {
			found = append(found, value)
		}
	}
	return found
}
