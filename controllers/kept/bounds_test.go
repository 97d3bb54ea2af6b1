// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// Every tenant may set the label that brings a pod into the cache: the bytes are counted that one pod can cost there.
func TestWhatTheCacheKeepsOfAPodIsBounded(t *testing.T) {
	huge := strings.Repeat("x", 256<<10)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", UID: "uid", DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"example.com/other", v1alpha1.Finalizer},
		Labels: map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}, Annotations: map[string]string{"example.com/other": huge},
	}}
	for _, key := range keptAnnotations {
		pod.Annotations[key] = huge
	}
	object, err := podTransform(pod)
	if err != nil {
		t.Fatal(err)
	}
	cached := object.(*corev1.Pod)
	if cached.Size() > 64<<10 {
		t.Errorf("the cache keeps %d bytes of a pod, want 64 KiB at most", cached.Size())
	}
	if len(cached.Finalizers) != 2 || cached.DeletionTimestamp == nil {
		t.Errorf("finalizers %v, deletion %v: neither may be lost", cached.Finalizers, cached.DeletionTimestamp)
	}
	if _, malformed := podnetwork.Attachments(cached.Annotations, "ns", ""); len(malformed) == 0 {
		t.Error("networks that were too large to keep are no networks now; want them malformed")
	}
}

func TestWhatTheCacheKeepsOfADefinitionIsBounded(t *testing.T) {
	for name, tc := range map[string]struct{ config, want string }{
		"an ordinary one":       {`{"type":"macvlan"}`, `{"type":"macvlan"}`},
		"as large as it may be": {strings.Repeat("x", podnetwork.MaxConfigBytes), strings.Repeat("x", podnetwork.MaxConfigBytes)},
		"a larger one":          {strings.Repeat("x", podnetwork.MaxConfigBytes+1), podnetwork.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := Default(&nadv1.NetworkAttachmentDefinition{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "wb", UID: "uid", ResourceVersion: "7", Annotations: map[string]string{"a": strings.Repeat("x", 1<<20)},
					ManagedFields: []metav1.ManagedFieldsEntry{{}}},
				Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: tc.config}})
			if err != nil {
				t.Fatal(err)
			}
			got := object.(*nadv1.NetworkAttachmentDefinition)
			if got.Spec.Config != tc.want || got.Name != "wb" || got.UID != "uid" || got.ResourceVersion != "7" || len(got.Annotations)+len(got.ManagedFields) > 0 {
				t.Errorf("the cache keeps %.200v", got)
			}
		})
	}
	other, err := Default(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", ManagedFields: []metav1.ManagedFieldsEntry{{}}}})
	if secret := other.(*corev1.Secret); err != nil || secret.Name != "s" || len(secret.ManagedFields) > 0 {
		t.Errorf("got %v, %v, want every other object without managedFields", other, err)
	}
}
