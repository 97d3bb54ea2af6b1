// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func dated(manager string, second int) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: time.Unix(int64(second), 0)}}
}

// TestTheCacheKeepsTheLastWrites: who removed a finalizer is read off two versions of a pod in the cache.
func TestTheCacheKeepsTheLastWrites(t *testing.T) {
	for name, fields := range map[string][]metav1.ManagedFieldsEntry{
		"whose fields are not kept": {dated("kubelet", 1), dated("kubectl-edit", 2)},
		"whose fields are kept":     {dated("kubectl-edit", 1), {Manager: "kubelet", Subresource: "status", Time: dated("", 2).Time, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}},
		"that is the only one":      {dated("kubectl-edit", 1)},
		"of one second":             {dated("kubectl-edit", 2), dated("kubelet", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := podTransform(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}})
			if err != nil {
				t.Fatal(err)
			}
			want, got := lastWrites(fields), lastWrites(object.(*corev1.Pod).ManagedFields)
			if len(got) != len(want) {
				t.Errorf("the last writes are %v in the cache, expected %v", got, want)
			}
			for i := range want {
				if !has(got, &want[i]) {
					t.Errorf("the cache has not the write of %s", want[i].Manager)
				}
			}
		})
	}
}
