// SPDX-License-Identifier: Apache-2.0

package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// TestTheCacheFindsWhatIsIndexed looks up in a cache of controller-runtime, which gives the names and keys of its indexes.
func TestTheCacheFindsWhatIsIndexed(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-0"}, Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "main", Image: "image"}}}}
	other := pod.DeepCopy()
	other.Namespace = "other"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	now := metav1.Now()
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "record"}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: "web-0", NodeName: "node-a",
		Sandboxes: []v1alpha1.SandboxRecord{{ID: "sandbox", ObservedTime: now, Attribution: v1alpha1.AttributionObservedAdd, Node: &v1alpha1.NodeIdentity{UID: "node-uid"}}},
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/p", IP: "10.0.0.1", SandboxID: "sandbox", ObservedTime: now}}}}
	cached := cacheOf(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, node, pod, other, record)
	for _, want := range []*corev1.Pod{pod, other} {
		pods, err := Pods(t.Context(), cached, PodUID, string(want.UID))
		if err != nil || len(pods) != 1 || pods[0].Namespace != want.Namespace {
			t.Errorf("pods of UID %s: %v (%v), want that of namespace %s", want.UID, pods, err, want.Namespace)
		}
	}
	if pods, err := Pods(t.Context(), cached, PodNode, "node-a"); err != nil || len(pods) != 2 {
		t.Errorf("pods of the node: %v (%v), want both", pods, err)
	}
	for field, key := range map[*Field[*v1alpha1.IPAllocation]]string{&RecordPod: "apps/web-0", &RecordNode: "node-a", &RecordSandbox: "sandbox", &RecordNodeUID: "node-uid",
		&RecordAddress: AddressKey("whereabouts", "kube-system/p", "10.0.0.1")} {
		if diff := cmp.Diff([]types.UID{"record"}, PodRecords(t.Context(), cached, *field, key)); diff != "" {
			t.Errorf("records by %s (-want +got):\n%s", field.name, diff)
		}
	}
	var nodes corev1.NodeList
	if err := cached.List(t.Context(), &nodes, client.MatchingFields{NodeUID: string(node.UID)}); err != nil || len(nodes.Items) != 1 {
		t.Errorf("Nodes by UID: %v (%v), want one", nodes.Items, err)
	}
}

// cacheOf is a cache with the indexes, of an API server with the objects.
func cacheOf(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kinds := apiserver.Natives()
	for _, file := range []string{"guardednodes", "ipallocations"} {
		kind, err := apiserver.CustomFromFile("../../config/crd/bases/holdfast.dev_" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kind)
	}
	server := apiserver.New(apiserver.Options{}, kinds...)
	config := &rest.Config{Host: "http://memory", Transport: server.Client(apiserver.Identity{Client: "manager"}), QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	admin, err := client.New(config, client.Options{Scheme: scheme, Mapper: server.Mapper()})
	for i := 0; err == nil && i < len(objects); i++ {
		err = admin.Create(t.Context(), objects[i])
	}
	if err != nil {
		t.Fatal(err)
	}
	cached, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: server.Mapper()})
	if err == nil {
		err = Setup(t.Context(), cached)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cached.Start(t.Context()) }()
	if !cached.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not sync")
	}
	return cached
}
