// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
)

// BenchmarkHeapOfPools measures the live heap for each entry of the cached pools, and for each cached reservation, with the indexes.
func BenchmarkHeapOfPools(b *testing.B) {
	const each, before, after = 5000, 2, 8
	for b.Loop() {
		w := heapWorld{B: b, backend: New(Options{}), store: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})}
		for pool := range before {
			w.addPool(pool, each)
			w.addReservations(pool, each)
		}
		first := liveHeap()
		for pool := before; pool < after; pool++ {
			w.addPool(pool, each)
		}
		second := liveHeap()
		for pool := before; pool < after; pool++ {
			w.addReservations(pool, each)
		}
		b.ReportMetric((second-first)/((after-before)*each), "B/entry")
		b.ReportMetric((liveHeap()-second)/((after-before)*each), "B/reservation")
		runtime.KeepAlive(w)
	}
}

func liveHeap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

type heapWorld struct {
	*testing.B

	backend *Backend
	store   toolscache.Indexer
}

func (w *heapWorld) addPool(pool, entries int) {
	all := map[string]wb.IPAllocation{}
	for i := 1; i <= entries; i++ {
		all[strconv.Itoa(i)] = wb.IPAllocation{ContainerID: fmt.Sprintf("%032d%032d", pool, i), PodRef: fmt.Sprintf("holdfast-bench/p-%d-%d", pool, i), IfName: "net1"}
	}
	object := newPool(fmt.Sprintf("10.%d.0.0-16", 16+pool), fmt.Sprintf("10.%d.0.0/16", 16+pool), "5", all)
	w.backend.index.apply(w.keep(object, &wb.IPPool{}).(*wb.IPPool), start)
}

func (w *heapWorld) addReservations(pool, entries int) {
	handler := w.backend.reservationHandler(nil)
	for i := 1; i <= entries; i++ {
		object := &wb.OverlappingRangeIPReservation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("10.%d.%d.%d", 16+pool, i/256, i%256), UID: "f0c0c0c0-0000", ResourceVersion: "1234567"},
			Spec:       wb.OverlappingRangeIPReservationSpec{PodRef: fmt.Sprintf("holdfast-bench/p-%d-%d", pool, i), IfName: "net1"}}
		handler.OnAdd(w.keep(object, &wb.OverlappingRangeIPReservation{}), true)
	}
}

// keep decodes an object, strips it and stores it.
func (w *heapWorld) keep(object, into any) any {
	w.Helper()
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	var kept any
	if err == nil {
		kept, err = strip(into)
	}
	if err == nil {
		err = w.store.Add(kept)
	}
	if err != nil {
		w.Fatal(err)
	}
	return kept
}
