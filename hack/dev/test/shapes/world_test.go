// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

const (
	// namespace is that of the pods and, unless they say otherwise, of their networks.
	namespace = "apps"
	// firstNamespace and secondNamespace hold whereabouts' objects.
	firstNamespace, secondNamespace = metav1.NamespaceSystem, "whereabouts-two"
	// node is the one that the pods run on.
	node = "node-a"
)

// world is an API server in memory, at a port of the loopback interface too, and one version of whereabouts on a node.
type world struct {
	admin  client.Client
	plugin plugin
	// directory has the files that configurations name.
	directory string

	mutex sync.Mutex
	// removals are the entries that writes of pools took away, as admission reads them.
	removals []ipam.Key
}

func newWorld(t *testing.T, v version) *world {
	t.Helper()
	logging.SetLogStderr(false)
	t.Setenv("NODENAME", node)
	w := &world{plugin: allocator{}, directory: t.TempDir()}
	if v.modfile != "" {
		w.plugin = programOf(t, v.modfile)
	}
	server := apiserver.New(apiserver.Options{OnChange: w.changed}, kinds(t, v)...)
	config := &rest.Config{Host: "http://memory", QPS: -1, Transport: server.Client(apiserver.Identity{Client: "admin"}),
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nadv1.AddToScheme, whereabouts.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.admin, err = client.New(config, client.Options{Scheme: scheme, Mapper: server.Mapper()}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{namespace, firstNamespace, secondNamespace} {
		w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	address := &url.URL{Scheme: "http", Host: "memory"}
	port := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) },
		Transport: server.Client(apiserver.Identity{Client: "whereabouts"})})
	t.Cleanup(port.Close)
	w.writeFiles(t, port.URL)
	return w
}

// kinds are those of Kubernetes, of Multus and of the version of whereabouts.
func kinds(t *testing.T, v version) []*apiserver.Kind {
	t.Helper()
	list := []string{"list", "-m", "-f", "{{.Dir}}"}
	multus := goIn(t, ".", append(list, "github.com/k8snetworkplumbingwg/network-attachment-definition-client")...)
	var own string
	if v.modfile == "" {
		own = goIn(t, ".", append(list, whereaboutsModule)...)
	} else {
		own = goIn(t, olderVersions, append(list, "-modfile="+v.modfile, whereaboutsModule)...)
	}
	all := apiserver.Natives()
	for _, glob := range []string{own + "/doc/crds/whereabouts.cni.cncf.io_*.yaml", multus + "/artifacts/networks-crd.yaml"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("no definitions are %s (error %v)", glob, err)
		}
		for _, file := range files {
			kind, err := apiserver.CustomFromFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, kind)
		}
	}
	return all
}

func (w *world) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// changed keeps what a write takes from a pool.
func (w *world) changed(c apiserver.Change) {
	if c.Kind.Plural != "ippools" || c.Old == nil || c.New == nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	before, after := decode(c.Old), decode(c.New)
	for offset, entry := range before.Entries {
		if after.Entries[offset] != entry {
			w.removals = append(w.removals, ipam.Key{Backend: whereabouts.Name, Pool: before.Name, IP: entry.IP,
				SandboxID: entry.SandboxID, PodRef: entry.PodRef, Interface: entry.Interface})
		}
	}
}

// decode reads a pool as admission does. What cannot be read has no entries, so that the comparison fails.
func decode(object map[string]any) *ipam.AdmittedPool {
	raw, err := json.Marshal(object)
	if err != nil {
		return &ipam.AdmittedPool{}
	}
	pool, err := whereabouts.New(whereabouts.Options{}).DecodePool(raw)
	if err != nil {
		return &ipam.AdmittedPool{}
	}
	return pool
}

// The files that configurations name, in the directory: two kubeconfigs of whereabouts, the flat file with its defaults, and one with a range.
func (w *world) writeFiles(t *testing.T, server string) {
	t.Helper()
	kubeconfig := func(namespace string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"one","clusters":[{"name":"c","cluster":{"server":%q}}],
			"contexts":[{"name":"one","context":{"cluster":"c","namespace":%q}}]}`, server, namespace)
	}
	for name, content := range map[string]string{
		"first.kubeconfig":  kubeconfig(firstNamespace),
		"second.kubeconfig": kubeconfig(secondNamespace),
		"defaults.conf":     `{"datastore":"kubernetes","kubernetes":{"kubeconfig":"$DIR/first.kubeconfig"}}`,
		"flat.conf": `{"kubernetes":{"kubeconfig":"$DIR/first.kubeconfig"},"network_name":"flat",
			"range":"10.112.0.0/24","range_start":"10.112.0.16","range_end":"10.112.0.31"}`,
	} {
		if err := os.WriteFile(filepath.Join(w.directory, name), []byte(w.inDirectory(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) inDirectory(content string) string {
	return strings.ReplaceAll(content, "$DIR", w.directory)
}

// define makes the networks of a shape, and divides the ranges that nodes have slices of.
func (w *world) define(t *testing.T, s *shape) {
	t.Helper()
	for name, config := range s.networks {
		in, name := networkKey(name)
		w.create(t, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: w.inDirectory(config)}})
	}
	if s.divided == "" {
		return
	}
	w.create(t, &wbv1alpha1.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: firstNamespace, Name: s.holds[0].pool},
		Spec:   wbv1alpha1.NodeSlicePoolSpec{Range: s.divided, SliceSize: "/24"},
		Status: wbv1alpha1.NodeSlicePoolStatus{Allocations: []wbv1alpha1.NodeSliceAllocation{{NodeName: node, SliceRange: s.slice()}}}})
}

func networkKey(name string) (in, of string) {
	if in, name, elsewhere := strings.Cut(name, "/"); elsewhere {
		return in, name
	}
	return namespace, name
}

// pod is a pod of the shape.
func (s *shape) pod(name string) *corev1.Pod {
	annotations := map[string]string{}
	if s.attach != "" {
		annotations[podnetwork.NetworksAnnotation] = s.attach
	}
	if s.defaultNetwork != "" {
		annotations[podnetwork.DefaultNetworkAnnotation] = s.defaultNetwork
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.id + "-" + name, Annotations: annotations}}
}

func podRef(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// calls are those that Multus has the plugins make for a sandbox of a pod, in the order of CNI ADD.
func (w *world) calls(t *testing.T, s *shape, pod *corev1.Pod, sandbox string) []call {
	t.Helper()
	var networks []*nadv1.NetworkSelectionElement
	if s.defaultNetwork != "" {
		elements, err := nadutils.ParseNetworkAnnotation(s.defaultNetwork, metav1.NamespaceSystem)
		if err != nil {
			t.Fatal(err)
		}
		elements[0].InterfaceRequest = "eth0"
		networks = elements
	}
	if s.attach != "" {
		elements, err := nadutils.ParsePodNetworkAnnotation(pod)
		if err != nil {
			t.Fatal(err)
		}
		for i, element := range elements {
			element.InterfaceRequest = cmp.Or(element.InterfaceRequest, fmt.Sprintf("net%d", i+1))
		}
		networks = append(networks, elements...)
	}
	var calls []call
	for _, network := range networks {
		var definition nadv1.NetworkAttachmentDefinition
		if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: network.Namespace, Name: network.Name}, &definition); err != nil {
			t.Fatal(err)
		}
		for _, config := range w.plugins(t, definition.Spec.Config) {
			calls = append(calls, call{config: config, sandbox: sandbox, iface: network.InterfaceRequest, pod: pod})
		}
	}
	return calls
}

// plugins are the configurations of a network's plugins that use whereabouts, as libcni hands them over. Its defaults are those of the
// directory, not of the machine that the tests run on.
func (w *world) plugins(t *testing.T, config string) [][]byte {
	t.Helper()
	var network map[string]any
	if err := json.Unmarshal([]byte(config), &network); err != nil {
		t.Fatal(err)
	}
	list, isList := network["plugins"].([]any)
	if !isList {
		list = []any{network}
	}
	var configs [][]byte
	for _, item := range list {
		own := maps.Clone(item.(map[string]any))
		settings, _ := own["ipam"].(map[string]any)
		if settings["type"] != "whereabouts" {
			continue
		}
		own["cniVersion"], own["name"] = network["cniVersion"], cmp.Or(network["name"], any("unnamed"))
		if settings["configuration_path"] == nil {
			settings["configuration_path"] = filepath.Join(w.directory, "defaults.conf")
		}
		config, err := json.Marshal(own)
		if err != nil {
			t.Fatal(err)
		}
		configs = append(configs, config)
	}
	return configs
}

func (w *world) add(t *testing.T, s *shape, pod *corev1.Pod, sandbox string) {
	t.Helper()
	for _, call := range w.calls(t, s, pod, sandbox) {
		if err := w.plugin.run(t, "ADD", call); err != nil {
			t.Fatalf("CNI ADD of %s on %s: %v", podRef(pod), call.iface, err)
		}
	}
}

// del is that of each interface, the last one first. Multus continues after an error.
func (w *world) del(t *testing.T, s *shape, pod *corev1.Pod, sandbox string) (failure error) {
	t.Helper()
	for _, call := range slices.Backward(w.calls(t, s, pod, sandbox)) {
		failure = cmp.Or(failure, w.plugin.run(t, "DEL", call))
	}
	return failure
}

func (h holding) inNamespace() string { return cmp.Or(h.namespace, firstNamespace) }

// find gives the pool as "namespace/name", by whereabouts' own rule, and where in it the address is.
func (h holding) find(s *shape) (pool string, within netip.Prefix) {
	id := wbkubernetes.PoolIdentifier{IpRange: h.pool, NetworkName: h.network}
	if h.sliced {
		id.NodeName, id.IpRange = node, s.slice()
	}
	return h.inNamespace() + "/" + wbkubernetes.IPPoolName(id), netip.MustParsePrefix(cmp.Or(h.within, id.IpRange))
}

// slice is the node's part of a range that is divided.
func (s *shape) slice() string {
	return netip.PrefixFrom(netip.MustParsePrefix(s.divided).Addr(), 24).String()
}
