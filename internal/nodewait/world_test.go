// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	host                = "aks-0"
	oldUID, newUID      = types.UID("1111"), types.UID("2222")
	dncFinalizer        = "finalizers.acn.azure.com/dnc-operations"
	hostSubnetNodeUID   = "pod.network.openshift.io/node-uid"
	thisMachine, before = "machine-new", "machine-old"
)

var (
	configs    = schema.GroupVersionResource{Group: "acn.azure.com", Version: "v1alpha", Resource: "nodenetworkconfigs"}
	subnets    = schema.GroupVersionResource{Group: "network.openshift.io", Version: "v1", Resource: "hostsubnets"}
	affinities = schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: "blockaffinities"}
	kinds      = map[schema.GroupVersionResource]string{configs: "NodeNetworkConfig", subnets: "HostSubnet", affinities: "BlockAffinity"}
)

// world is a fake API server.
type world struct {
	t      *testing.T
	client *fake.FakeDynamicClient
	groups *fakeDiscovery
	out    bytes.Buffer
	errOut lockedBuffer
}

func newWorld(t *testing.T, objects ...*unstructured.Unstructured) *world {
	t.Helper()
	w := &world{t: t, groups: &fakeDiscovery{resources: map[string][]metav1.APIResource{
		"acn.azure.com/v1alpha":    {{Name: "nodenetworkconfigs/status", Kind: "Wrong"}, {Name: "nodenetworkconfigs", Kind: kinds[configs], Namespaced: true}},
		"network.openshift.io/v1":  {{Name: "hostsubnets", Kind: kinds[subnets]}},
		"crd.projectcalico.org/v1": {{Name: "blockaffinities", Kind: kinds[affinities]}},
	}}}
	w.client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		nodes: "NodeList", policies: "NodeResourcePolicyList",
		configs: kinds[configs] + "List", subnets: kinds[subnets] + "List", affinities: kinds[affinities] + "List",
	})
	for _, o := range objects {
		w.put(o)
	}
	return w
}

func (w *world) resource(u *unstructured.Unstructured) schema.GroupVersionResource {
	switch u.GetKind() {
	case "Node":
		return nodes
	case "NodeResourcePolicy":
		return policies
	}
	for gvr, kind := range kinds {
		if kind == u.GetKind() {
			return gvr
		}
	}
	w.t.Fatalf("no resource of kind %s", u.GetKind())
	return schema.GroupVersionResource{}
}

// put creates the object, or puts it in the place of one of its name.
func (w *world) put(u *unstructured.Unstructured) {
	w.t.Helper()
	tracker, gvr := w.client.Tracker(), w.resource(u)
	err := tracker.Create(gvr, u, u.GetNamespace())
	if apierrors.IsAlreadyExists(err) {
		err = tracker.Update(gvr, u, u.GetNamespace())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(u *unstructured.Unstructured) {
	w.t.Helper()
	if err := w.client.Tracker().Delete(w.resource(u), u.GetNamespace(), u.GetName()); err != nil {
		w.t.Fatal(err)
	}
}

// fault is an error that every request of one kind gets; none while it is nil.
type fault struct {
	mu  sync.Mutex
	err error
}

func (f *fault) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (w *world) fault(verb, resource string) *fault {
	f := &fault{}
	w.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.err != nil, nil, f.err
	})
	return f
}

func (w *world) options(change func(*Options)) Options {
	o := Options{Client: w.client, Discovery: w.groups, Resource: configs, Node: host, Namespace: "kube-system",
		IfMissing: Wait, Timeout: 10 * time.Minute, Out: &w.out, Err: &w.errOut}
	if change != nil {
		change(&o)
	}
	return o
}

// look is one look at the world.
func (w *world) look(change func(*Options)) (string, error) {
	w.t.Helper()
	one := newWaiter(w.options(change))
	if err := one.readOptions(); err != nil {
		return "", err
	}
	return one.look(w.t.Context())
}

type fakeDiscovery struct {
	mu        sync.Mutex
	resources map[string][]metav1.APIResource
}

func (d *fakeDiscovery) serve(version string, resources ...metav1.APIResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.resources, version); len(resources) > 0 {
		d.resources[version] = resources
	}
}

func (d *fakeDiscovery) Group(_ context.Context, name string) (*metav1.APIGroup, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	group := &metav1.APIGroup{}
	for version := range d.resources {
		gv, _ := schema.ParseGroupVersion(version)
		if gv.Group == name {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{Version: gv.Version})
			group.PreferredVersion = group.Versions[0]
		}
	}
	if len(group.Versions) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return group, nil
}

func (d *fakeDiscovery) Resources(_ context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, served := d.resources[version.String()]
	if !served {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version.String())
	}
	return &metav1.APIResourceList{APIResources: list}, nil
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func object(gvr schema.GroupVersionResource, kind, namespace, name string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(gvr.GroupVersion().String())
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetResourceVersion("7")
	for _, change := range changes {
		change(u)
	}
	return u
}

func liveNode(uid types.UID, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return object(nodes, "Node", "", host, append(changes, func(u *unstructured.Unstructured) { u.SetUID(uid) })...)
}

func config(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return object(configs, kinds[configs], "kube-system", host, changes...)
}

func ownedBy(name string, uid types.UID) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.SetOwnerReferences(append(u.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}))
	}
}

func deleting(finalizers ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.SetFinalizers(finalizers)
		u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1700000000, 0)})
	}
}

func annotated(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{key: value}) }
}

func field(value any, path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func machine(id string) func(*unstructured.Unstructured) {
	return field(id, "status", "nodeInfo", "machineID")
}

// policy is a NodeResourcePolicy "p" of the resource.
func policy(gvr schema.GroupVersionResource, change func(*v1alpha1.NodeResourcePolicySpec)) *unstructured.Unstructured {
	p := &v1alpha1.NodeResourcePolicy{Spec: v1alpha1.NodeResourcePolicySpec{
		Resource: v1alpha1.GuardedResource{Group: gvr.Group, Resource: gvr.Resource, Versions: []string{"*"}},
	}}
	if change != nil {
		change(&p.Spec)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind("NodeResourcePolicy")
	u.SetName("p")
	return u
}
