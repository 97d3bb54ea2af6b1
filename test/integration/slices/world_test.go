// SPDX-License-Identifier: Apache-2.0

package slices_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// namespace is where whereabouts has its objects. The NetworkAttachmentDefinition is there too: the garbage collector takes
// an object whose owner is in another namespace for one whose owner is gone.
const namespace = "kube-system"

// network is a spec's own: a range that is divided among the nodes, nodes, and whereabouts' node-slice controller.
type network struct {
	name string
	// subnet is n of 10.n.0.0/24.
	subnet int
	// unnamed leaves network_name out of the configuration: the pools are not named like the NodeSlicePool then.
	unnamed bool
	nodes   int
}

var networks int

// newNetwork has nodes a, b, … and a slice for each of them, a's first: they come one by one.
func newNetwork(ctx context.Context, size string, change ...func(*network)) *network {
	GinkgoHelper()
	networks++
	n := &network{name: fmt.Sprintf("net-%d", networks), subnet: networks}
	for _, c := range change {
		c(n)
	}
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: n.name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: n.config(n.cidr(), size)}}
	Expect(admin.Create(ctx, definition)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, definition))).To(Succeed())
		Expect(client.IgnoreNotFound(admin.Delete(ctx, n.slicePool()))).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.IPPool{}, client.InNamespace(namespace))).To(Succeed())
	})
	startNodeSliceController()
	Eventually(ctx, func() []string { return n.owners(ctx) }).ShouldNot(BeEmpty())
	for i := range 2 {
		n.addNode(ctx)
		Eventually(ctx, func() string { return n.owners(ctx)[i] }).Should(Equal(n.node(i)))
	}
	return n
}

func unnamed(n *network) { n.unnamed = true }

func (n *network) cidr() string { return fmt.Sprintf("10.%d.0.0/24", n.subnet) }

// config is that of a plugin. Overlapping ranges are off: the reservations of the cluster would hide what the pools do.
func (n *network) config(cidr, size string) string {
	GinkgoHelper()
	ipam := map[string]any{"type": "whereabouts", "range": cidr, "node_slice_size": size, "enable_overlapping_ranges": false,
		"network_name": n.name, "configuration_path": flatFile(), "kubernetes": map[string]string{"kubeconfig": plane.Kubeconfig()}}
	if n.unnamed {
		delete(ipam, "network_name")
	}
	content, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "name": n.name, "type": "macvlan", "ipam": ipam})
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// flatFile is the configuration without which whereabouts does not work, empty.
func flatFile() string {
	GinkgoHelper()
	path := filepath.Join(programs, "whereabouts.conf")
	Expect(os.WriteFile(path, []byte("{}"), 0o600)).To(Succeed())
	return path
}

func startNodeSliceController() {
	GinkgoHelper()
	controller, err := process.Start(process.Options{Path: filepath.Join(programs, "nodeslicecontroller"), Args: []string{"-kubeconfig", plane.Kubeconfig()},
		Env: []string{"WHEREABOUTS_NAMESPACE=" + namespace}, LogFile: filepath.Join(programs, "nodeslicecontroller.log")})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controller.Kill()).To(Succeed()) })
}

// node is the name of a node of this network's spec; every NodeSlicePool is about all nodes.
func (n *network) node(i int) string { return fmt.Sprintf("%s-node-%c", n.name, 'a'+rune(i)) }

// addNode registers the next node.
func (n *network) addNode(ctx context.Context) string {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.node(n.nodes)}}
	n.nodes++
	Expect(admin.Create(ctx, node)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, node))).To(Succeed()) })
	return node.Name
}

func (n *network) deleteNode(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

func (n *network) slicePool() *wbv1alpha1.NodeSlicePool {
	return &wbv1alpha1.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: n.name}}
}

func (n *network) live(ctx context.Context) *wbv1alpha1.NodeSlicePool {
	GinkgoHelper()
	pool := n.slicePool()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
	return pool
}

// awaitCached waits until the API server's own cache has the NodeSlicePool as it is. A write begins with what that cache has; if it turns
// out to be old, admission is asked once more (GuaranteedUpdate in k8s.io/apiserver pkg/storage/etcd3), and calls could not be counted.
func (n *network) awaitCached(ctx context.Context) {
	GinkgoHelper()
	pool := n.live(ctx)
	notOlder := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: pool.ResourceVersion}}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(pool), pool, notOlder)).To(Succeed())
}

// owners are the nodes of the slices, in their order; empty while there is no NodeSlicePool.
func (n *network) owners(ctx context.Context) []string {
	GinkgoHelper()
	pool := n.slicePool()
	Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pool), pool))).To(Succeed())
	return ownersOf(pool)
}

func ownersOf(pool *wbv1alpha1.NodeSlicePool) []string {
	owners := make([]string, 0, len(pool.Status.Allocations))
	for _, allocation := range pool.Status.Allocations {
		owners = append(owners, allocation.NodeName)
	}
	return owners
}

// allocate is CNI ADD of a pod on a node: the address that whereabouts' own allocator gives it.
func (n *network) allocate(ctx context.Context, node, pod string) string {
	GinkgoHelper()
	definition := &nadv1.NetworkAttachmentDefinition{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: n.name}, definition)).To(Succeed())
	var stderr strings.Builder
	command := exec.CommandContext(ctx, filepath.Join(programs, "allocate"), plane.Kubeconfig(), namespace, "default/"+pod, "sandbox-"+pod)
	command.Env = append(os.Environ(), "NODENAME="+node)
	command.Stdin, command.Stderr = strings.NewReader(definition.Spec.Config), &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "allocating: %s", &stderr)
	return strings.TrimSpace(string(out))
}

// pools are the IPPools of a node, by name, with the number of their entries.
func (n *network) pools(ctx context.Context, node string) map[string]int {
	GinkgoHelper()
	var list wbv1alpha1.IPPoolList
	Expect(admin.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	pools := map[string]int{}
	for i := range list.Items {
		if strings.Contains(list.Items[i].Name, node) {
			pools[list.Items[i].Name] = len(list.Items[i].Spec.Allocations)
		}
	}
	return pools
}

// release empties the pools of a node, as Holdfast does once nobody uses the addresses.
func (n *network) release(ctx context.Context, node string) {
	GinkgoHelper()
	for name := range n.pools(ctx, node) {
		pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		Expect(admin.Patch(ctx, pool, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/allocations","value":{}}]`)))).To(Succeed())
	}
}

// notes are the texts of the events about the NodeSlicePool for a reason.
func (n *network) notes(ctx context.Context, reason v1alpha1.Reason) func() []string {
	return func() []string {
		GinkgoHelper()
		var list eventsv1.EventList
		Expect(admin.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		var notes []string
		for i := range list.Items {
			if event := &list.Items[i]; event.Regarding.Kind == "NodeSlicePool" && event.Regarding.Name == n.name && event.Reason == string(reason) {
				notes = append(notes, event.Note)
			}
		}
		return notes
	}
}
