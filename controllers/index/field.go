// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"hash/maphash"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Field is what pods or records are looked up by. Its name is unexported, since a bucket also has objects with other keys: only the functions below
// list it.
type Field[T client.Object] struct {
	name string
	keys func(T) []string
	// bucketed: the index has a bucket of keys in the place of each key. An index has a map of its own for each of its keys, of some 250 bytes,
	// which is too much for a key that one object has.
	bucketed bool
}

// bucketCount makes a bucket of 9 objects with 150,000 pods: a look-up copies all objects of a bucket.
const bucketCount = 16384

var (
	bucketSeed = maphash.MakeSeed()
	buckets    = func() (names [bucketCount]string) {
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
		return names
	}()
)

// stored is the key of the index that stands for a key.
func (f Field[T]) stored(key string) string {
	if !f.bucketed {
		return key
	}
	return buckets[maphash.String(bucketSeed, key)%bucketCount]
}

func (f Field[T]) indexed(object client.Object) []string {
	typed, ok := object.(T)
	if !ok {
		return nil
	}
	keys := slices.Clone(f.keys(typed))
	for i := range keys {
		keys[i] = f.stored(keys[i])
	}
	return keys
}

func (f Field[T]) has(object T, key string) bool { return slices.Contains(f.keys(object), key) }

// Pods are the pods with a key, from the cache: copies with the kind, as the cache makes them.
func Pods(ctx context.Context, cached client.Reader, field Field[*corev1.Pod], key string) ([]corev1.Pod, error) {
	var listed corev1.PodList
	if err := cached.List(ctx, &listed, client.MatchingFields{field.name: field.stored(key)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for i := range listed.Items {
		if field.has(&listed.Items[i], key) {
			pod := listed.Items[i].DeepCopy()
			pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			pods = append(pods, *pod)
		}
	}
	return pods, nil
}

// Records are the records with a key, from the cache: copies as of Pods.
func Records(ctx context.Context, cached client.Reader, field Field[*v1alpha1.IPAllocation], key string) ([]v1alpha1.IPAllocation, error) {
	records, err := SharedRecords(ctx, cached, field, key)
	for i := range records {
		records[i] = *records[i].DeepCopy()
		records[i].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IPAllocation"))
	}
	return records, err
}

// SharedRecords are Records without a copy of what they refer to: read them, never change them.
func SharedRecords(ctx context.Context, cached client.Reader, field Field[*v1alpha1.IPAllocation], key string) ([]v1alpha1.IPAllocation, error) {
	var listed v1alpha1.IPAllocationList
	if err := cached.List(ctx, &listed, client.MatchingFields{field.name: field.stored(key)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var records []v1alpha1.IPAllocation
	for i := range listed.Items {
		if field.has(&listed.Items[i], key) {
			records = append(records, listed.Items[i])
		}
	}
	return records, nil
}

// PodRecords are the UIDs of the pods with a record that has a key, from the cache. Records of orphans have no pod UID.
func PodRecords(ctx context.Context, cached client.Reader, field Field[*v1alpha1.IPAllocation], key string) []types.UID {
	records, err := SharedRecords(ctx, cached, field, key)
	if err != nil {
		return nil
	}
	names := make([]types.UID, 0, len(records))
	for i := range records {
		if !records[i].IsOrphan() {
			names = append(names, types.UID(records[i].Name))
		}
	}
	return names
}
