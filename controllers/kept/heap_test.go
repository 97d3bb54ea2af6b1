// SPDX-License-Identifier: Apache-2.0

package kept_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/kept"
)

// BenchmarkHeapOfPods measures the live heap for each pod and each record in the cache with its indexes.
func BenchmarkHeapOfPods(b *testing.B) {
	benchmarkHeap(b, &corev1.Pod{}, func(i int) client.Object {
		pod := &corev1.Pod{}
		if err := pod.Unmarshal(encoded(b, podNumber(i).Marshal)); err != nil {
			b.Fatal(err)
		}
		return pod
	})
}

// BenchmarkHeapOfRecords is BenchmarkHeapOfPods for records.
func BenchmarkHeapOfRecords(b *testing.B) {
	benchmarkHeap(b, &v1alpha1.IPAllocation{}, func(i int) client.Object {
		record := &v1alpha1.IPAllocation{}
		if err := json.Unmarshal(encoded(b, func() ([]byte, error) { return json.Marshal(recordNumber(i)) }), record); err != nil {
			b.Fatal(err)
		}
		return record
	})
}

func encoded(b *testing.B, encode func() ([]byte, error)) []byte {
	b.Helper()
	raw, err := encode()
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

// benchmarkHeap puts decoded objects through the transform of a kind into a store, the first 10,000 before it measures.
func benchmarkHeap(b *testing.B, kind client.Object, decode func(int) client.Object) {
	b.Helper()
	const before, after = 10_000, 40_000
	var transform toolscache.TransformFunc
	for object, by := range kept.ByObject() {
		if fmt.Sprintf("%T", object) == fmt.Sprintf("%T", kind) {
			transform = by.Transform
		}
	}
	for b.Loop() {
		store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexersOf(kind))
		var first float64
		for i := range after {
			if i == before {
				first = liveHeap()
			}
			object, err := transform(decode(i))
			if err == nil {
				err = store.Add(object)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((liveHeap()-first)/(after-before), "B/object")
		runtime.KeepAlive(store)
	}
}

func liveHeap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// indexersOf are the indexes of a kind as index.Setup registers them.
func indexersOf(kind client.Object) toolscache.Indexers {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	for _, i := range index.All {
		if fmt.Sprintf("%T", i.Object) != fmt.Sprintf("%T", kind) {
			continue
		}
		indexers["field:"+i.Field] = func(raw any) ([]string, error) {
			var keys []string
			for _, key := range i.Keys(raw.(client.Object)) {
				keys = append(keys, "__all_namespaces/"+key)
			}
			return keys, nil
		}
	}
	return indexers
}

func uidOf(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i) }

func podNumber(i int) *corev1.Pod {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	status := fmt.Sprintf(`[{"name":"apps/blue","interface":"net1","ips":["10.16.%d.%d"],"dns":{}}]`, i/256, i%256)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: fmt.Sprint("p-0-", i), UID: types.UID(uidOf(i)), ResourceVersion: "1234567", CreationTimestamp: now,
			Finalizers: []string{v1alpha1.Finalizer}, Labels: map[string]string{"app": "web", v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "blue", nadv1.NetworkStatusAnnot: status},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "bench", APIVersion: "v1", Operation: metav1.ManagedFieldsOperationUpdate, Time: &now,
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:nodeName":{},"f:containers":{}}}`)}}},
		Spec:   corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/server:1.2.3"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func recordNumber(i int) *v1alpha1.IPAllocation {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	address, name, sandbox, node := fmt.Sprintf("10.16.%d.%d", i/256, i%256), fmt.Sprint("p-0-", i), fmt.Sprintf("%064d", i), uidOf(-1)
	return &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: uidOf(i), UID: types.UID(uidOf(i + 1)), ResourceVersion: "1234567", Generation: 1, CreationTimestamp: now},
		Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: name, NodeName: "node-a", ScheduledTime: &now, IPs: []string{address},
			Sandboxes: []v1alpha1.SandboxRecord{{ID: sandbox, ObservedTime: now, Attribution: v1alpha1.AttributionNetworkStatus,
				Node: &v1alpha1.NodeIdentity{UID: types.UID(node), MachineID: node, SystemUUID: node, BootID: node}}},
			Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/10.16.0.0-16", IP: address, Interface: "net1", Network: "apps/blue",
				PodRef: "apps/" + name, SandboxID: sandbox, ObservedTime: now, PoolResourceVersion: "1234567"}}},
		Status: v1alpha1.IPAllocationStatus{State: v1alpha1.StateInUse},
	}
}
