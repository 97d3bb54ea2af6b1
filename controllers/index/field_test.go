// SPDX-License-Identifier: Apache-2.0

package index

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestABucketIsReadByItsTrueKeys: of the objects in one bucket, each look-up finds those with its key.
func TestABucketIsReadByItsTrueKeys(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, i := range All {
		b.WithIndex(i.Object, i.Field, i.Keys)
	}
	uids, names, ips, ids := inOneBucket(""), inOneBucket("ns/"), inOneBucket("backend|ns/pool|"), inOneBucket("")
	for i := range 2 {
		b.WithObjects(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: names[i], UID: types.UID(uids[i])}},
			&v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "record-" + strconv.Itoa(i)}, Spec: v1alpha1.IPAllocationSpec{
				PodNamespace: "ns", PodName: names[i], Sandboxes: []v1alpha1.SandboxRecord{{ID: ids[i]}},
				Addresses: []v1alpha1.AddressRecord{{Backend: "backend", Pool: "ns/pool", IP: ips[i]}}}})
	}
	c := b.Build()
	for i := range 2 {
		pods, err := Pods(t.Context(), c, PodUID, uids[i])
		if err != nil || len(pods) != 1 || pods[0].Name != names[i] {
			t.Errorf("pods of UID %s: %v (%v), want %s alone", uids[i], pods, err, names[i])
		}
		for _, by := range []struct {
			field Field[*v1alpha1.IPAllocation]
			key   string
		}{{RecordPod, "ns/" + names[i]}, {RecordAddress, AddressKey("backend", "ns/pool", ips[i])}, {RecordSandbox, ids[i]}} {
			want := []types.UID{types.UID("record-" + strconv.Itoa(i))}
			if diff := cmp.Diff(want, PodRecords(t.Context(), c, by.field, by.key)); diff != "" {
				t.Errorf("records by %s %q (-want +got):\n%s", by.field.name, by.key, diff)
			}
		}
	}
}

// inOneBucket are two texts that have one bucket after a prefix.
func inOneBucket(prefix string) [2]string {
	seen := map[string]string{}
	for i := 0; ; i++ {
		text := strconv.Itoa(i)
		bucket := RecordPod.stored(prefix + text)
		if other, had := seen[bucket]; had {
			return [2]string{other, text}
		}
		seen[bucket] = text
	}
}
