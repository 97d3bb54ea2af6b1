// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/sharedread"
)

// defaultCRDInterval is how often the API server is asked for whereabouts' CRD while it is not installed.
const defaultCRDInterval = 30 * time.Second

// +kubebuilder:rbac:groups=whereabouts.cni.cncf.io,resources=ippools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=whereabouts.cni.cncf.io,resources=overlappingrangeipreservations,verbs=get;list;watch;delete

// Options of the backend.
type Options struct {
	// Namespaces hold IPPools and reservations. Default: kube-system, as whereabouts' own manifests have it.
	Namespaces []string
	// Log gets what happens to the backend as a whole, and problems of pools. Default: none.
	Log logr.Logger
	// Clock is the time at which entries are first seen. Default: the real one.
	Clock clock.PassiveClock
	// CRDInterval is how often the API server is asked for the IPPool CRD while it is missing. Default: 30s.
	CRDInterval time.Duration
	// NewInformer makes the informers of the backend's cache. Default: client-go's.
	NewInformer func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
}

// Backend is whereabouts behind the port ipam.Backend.
type Backend struct {
	options Options
	index   *index

	// reader and writer use the API server, not a cache.
	reader client.Reader
	writer client.Client

	// synced reports whether the first list is in the index; nil until the pools are watched.
	synced atomic.Pointer[toolscache.InformerSynced]

	// pools is the cache of pools and, where the audit runs, of reservations; reserved are these by what they name.
	pools    cache.Cache
	reserved *reservedIndex
	// poolStores are what the cache keeps the pools in, one for each namespace: all of them by when synced is set, and none after.
	poolStores []toolscache.Store

	// batcher gathers concurrent releases from one pool.
	batcher batcher
	// lists are the live lists of pools, and livePools the live reads of each.
	lists     *sharedread.Read[[]metav1.ObjectMeta]
	livePools sharedread.Each[client.ObjectKey, *wb.IPPool]

	subscribersMu sync.Mutex
	subscribers   []func(ipam.Event)
}

var _ ipam.Backend = (*Backend)(nil)

// New makes a backend that knows nothing until Setup.
func New(o Options) *Backend {
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{metav1.NamespaceSystem}
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.CRDInterval == 0 {
		o.CRDInterval = defaultCRDInterval
	}
	if o.NewInformer == nil {
		o.NewInformer = toolscache.NewSharedIndexInformer
	}
	return &Backend{options: o, index: newIndex(), lists: sharedread.New[[]metav1.ObjectMeta](), reserved: newReservedIndex()}
}

// AddToScheme registers whereabouts' types. A manager's scheme that lacks them gets them in Setup.
func AddToScheme(scheme *runtime.Scheme) error { return wb.AddToScheme(scheme) }

// strip drops what the index does not use. UID and resourceVersion stay: they show whether the cache is as good as
// a live read.
func strip(object any) (any, error) {
	switch object := object.(type) {
	case *wb.IPPool:
		object.ManagedFields = nil
		object.Annotations = nil
		object.Labels = nil
	case *wb.OverlappingRangeIPReservation:
		return cachedReservationOf(object), nil
	}
	return object, nil
}

// Name is the backend's name.
func (b *Backend) Name() string { return Name }

// Manages is true for IPAM configurations of type whereabouts, under any plugin.
func (b *Backend) Manages(i podnetwork.IPAM) bool { return i.Type == Name }

// PoolReference names an IPPool as the object of an event.
func (b *Backend) PoolReference(pool string) *corev1.ObjectReference {
	return referenceTo("IPPool", keyOf(pool))
}

func referenceTo(kind string, key client.ObjectKey) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: wb.SchemeGroupVersion.String(), Kind: kind, Namespace: key.Namespace, Name: key.Name}
}

// Subscribe registers a function that is called, without blocking, for each change seen.
func (b *Backend) Subscribe(f func(ipam.Event)) {
	b.subscribersMu.Lock()
	defer b.subscribersMu.Unlock()
	b.subscribers = append(b.subscribers, f)
}

func (b *Backend) publish(e ipam.Event) {
	if isEmpty(e) {
		return
	}
	b.subscribersMu.Lock()
	subscribers := b.subscribers
	b.subscribersMu.Unlock()
	for _, f := range subscribers {
		f(e)
	}
}

// HasSynced is true once the pools of the first list are in the index. It stays false while whereabouts' CRD is missing: a
// cluster whose IPAM is not there yet is unknown, not empty.
func (b *Backend) HasSynced() bool {
	synced := b.synced.Load()
	return synced != nil && (*synced)()
}

// Find reads what a query selects from the cache.
func (b *Backend) Find(q ipam.Query) ipam.Snapshot { return b.index.find(queryOf(q)) }

// All reads the whole cache.
func (b *Backend) All() ipam.Snapshot { return b.index.all() }
