// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

const (
	namespace = "holdfast-system"
	delay     = 5 * time.Minute
	// soon is when all events of a moment are written.
	soon = 4 * time.Second
)

// world is a cluster whose only controller is that of GuardedNodes.
type world struct {
	*testing.T
	server *apiserver.Server
	admin  client.Client
	stop   context.CancelFunc
	// lifecycle is that of the manager.
	lifecycle *Lifecycle
	// lease is when the kubelet of a deleted Node renewed its Lease; kubeletFails makes every read of signs fail.
	mu sync.Mutex
	// isQuiet: the API server sends no bookmarks. isLate: it sends them each minute alone.
	isQuiet, isLate bool

	lease        map[string]time.Time
	kubeletFails bool
	hold         bool
	// refuses is the resource of which every write of the manager fails.
	refuses string
	// unreadable is the resource whose live reads fail.
	unreadable string
	// writes are those of the manager: verb, resource, name.
	writes []string
	// queries are the requested ones. The evidence is Agent unless a test changes it.
	queries  *queries.Wanted
	evidence release.Evidence
}

// play runs a test in virtual time, with the controller running.
func play(t *testing.T, test func(*world)) { playWith(t, &world{}, test) }

func playWith(t *testing.T, w *world, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.T, w.lease = t, map[string]time.Time{}
		w.server = apiserver.New(apiserver.Options{OnChange: w.changed, Gate: w}, kinds(t)...)
		var err error
		if w.admin, err = client.New(w.config("admin"), client.Options{Scheme: scheme(t), Mapper: w.server.Mapper()}); err != nil {
			t.Fatal(err)
		}
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		w.start()
		test(w)
		w.stop()
	})
}

func kinds(t *testing.T) []*apiserver.Kind {
	t.Helper()
	kinds := apiserver.Natives()
	for _, file := range []string{"guardednodes", "ipallocations"} {
		kind, err := apiserver.CustomFromFile("../../config/crd/bases/holdfast.dev_" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (w *world) config(name string) *rest.Config {
	return &rest.Config{Host: "http://memory", Transport: w.server.Client(apiserver.Identity{Client: name}), QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
}

// start starts a manager, after the one before it has ended.
func (w *world) start() {
	w.Helper()
	if w.stop != nil {
		w.stop()
	}
	watches := &Watches{}
	w.queries = queries.NewWanted()
	mgr, err := manager.New(w.config("manager"), manager.Options{Scheme: scheme(w.T), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0", Cache: cache.Options{NewInformer: watches.Informers(nil)}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return w.server.Mapper(), nil }})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := index.Setup(ctx, mgr.GetCache()); err != nil {
		w.Fatal(err)
	}
	if w.lifecycle, err = Setup(mgr, clock.RealClock{}, Options{Settings: release.Settings{NodeGoneDelay: delay, HoldGoneNodes: w.hold}, Namespace: namespace, LastRetry: 30 * time.Second,
		Watches: watches, Kubelet: w.kubelet, Queries: w.queries, Evidence: cmp.Or(w.evidence, release.EvidenceAgent)}); err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go w.bookmark(ctx)
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			w.Error(err)
		}
	}()
	w.stop = func() {
		cancel()
		<-ended
		synctest.Wait()
	}
	w.pass(soon)
}

// bookmark sends bookmarks to the watches of Nodes as the API server does: each minute, and a second after one with a short limit began.
func (w *world) bookmark(ctx context.Context) {
	for second := 1; ; second++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		w.mu.Lock()
		isQuiet := w.isQuiet
		w.mu.Unlock()
		for _, stream := range w.server.Streams() {
			if isDue := second%60 == 0 || (stream.Limit() == catchUpLimit && !w.isLate); isDue && !isQuiet && strings.HasPrefix(stream.Name(), "manager watch nodes") {
				stream.Bookmark()
			}
		}
	}
}

func (w *world) kubelet(_ context.Context, node string, _ time.Time) (nodelife.Kubelet, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kubeletFails {
		return nodelife.Kubelet{}, fmt.Errorf("looking for node %s fails", node)
	}
	if at, has := w.lease[node]; has {
		return nodelife.Kubelet{LeaseRenewed: &metav1.MicroTime{Time: at}}, nil
	}
	return nodelife.Kubelet{}, nil
}

func (w *world) renew(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease[node] = time.Now()
}

// changed is called for each change of an object.
func (w *world) changed(c apiserver.Change) {
	if c.Client != "manager" {
		return
	}
	verb, object := "update", c.New
	switch {
	case c.Old == nil:
		verb = "create"
	case c.New == nil:
		verb, object = "delete", c.Old
	}
	name, _ := object["metadata"].(map[string]any)["name"].(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, verb+" "+c.Kind.Plural+" "+name)
}

// Pass is the server's gate.
func (w *world) Pass(_ context.Context, c apiserver.Call) apiserver.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if isRead := slices.Contains([]string{"get", "list", "watch"}, c.Verb); c.Client == "manager" && !isRead && c.Resource == w.refuses {
		return apiserver.Outcome{Err: fmt.Errorf("the API server refuses to %s", c.Verb)}
	}
	if c.Client == "manager" && c.Verb == "get" && c.Resource == w.unreadable {
		return apiserver.Outcome{Err: errors.New("the API server is away")}
	}
	return apiserver.Outcome{}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// took gives the writes since the last call.
func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.writes
	w.writes = nil
	return taken
}

func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := w.admin.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) delete(o client.Object) {
	w.Helper()
	if err := w.admin.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// register has a machine register a Node.
func (w *world) register(name, machine string) *corev1.Node {
	w.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{
		MachineID: machine, SystemUUID: machine + "-system", BootID: machine + "-boot"}}}
	w.create(node)
	return node
}

// takeOver has another machine report into a Node object.
func (w *world) takeOver(node *corev1.Node, machine string) {
	w.Helper()
	node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: machine, SystemUUID: machine + "-system", BootID: machine + "-boot"}
	if err := w.admin.Status().Update(w.Context(), node); err != nil {
		w.Fatal(err)
	}
}

func (w *world) record(name string, node *corev1.Node) *v1alpha1.IPAllocation {
	w.Helper()
	info := node.Status.NodeInfo
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "default", PodName: "web", NodeName: node.Name,
		Addresses: []v1alpha1.AddressRecord{}, Sandboxes: []v1alpha1.SandboxRecord{{ID: "s", ObservedTime: metav1.Now(), Attribution: v1alpha1.AttributionNetworkStatus,
			Node: &v1alpha1.NodeIdentity{UID: node.UID, MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID}}}}}
	w.create(record)
	return record
}

// object is the GuardedNode of a Node; nil if there is none.
func (w *world) object(node *corev1.Node) *v1alpha1.GuardedNode {
	w.Helper()
	var object v1alpha1.GuardedNode
	err := w.admin.Get(w.Context(), types.NamespacedName{Name: string(node.UID)}, &object)
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return &object
}

// is checks the machines of an object, newest first: "A", "A gone", "A of UID"; "none" is no object.
func (w *world) is(node *corev1.Node, want ...string) {
	w.Helper()
	got := []string{"none"}
	if object := w.object(node); object != nil {
		got = nil
		for _, m := range object.Spec.Machines {
			text := m.MachineID
			if m.Gone != nil {
				text += " gone"
			}
			if m.SuccessorUID != "" {
				text += " of " + string(m.SuccessorUID)
			}
			got = append(got, text)
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("GuardedNode of %s (%s): %s, want %s", node.Name, node.UID, strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// observation is the Lease.
func (w *world) observation() coordinationv1.LeaseSpec {
	w.Helper()
	var lease coordinationv1.Lease
	if err := w.admin.Get(w.Context(), types.NamespacedName{Namespace: namespace, Name: v1alpha1.NodeObservationLease}, &lease); err != nil {
		w.Fatal(err)
	}
	return lease.Spec
}

// began checks when the observation began.
func (w *world) began(when time.Time, within time.Duration) {
	w.Helper()
	if got := w.observation().AcquireTime; got == nil || got.Sub(when).Abs() > within {
		w.Errorf("the observation began at %v, want %s", got, when)
	}
}
