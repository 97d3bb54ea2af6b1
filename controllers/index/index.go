// SPDX-License-Identifier: Apache-2.0

// Package index has the indexes of pods and records in the manager's cache.
package index

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// The fields by which Nodes and GuardedNodes are found: what their machines may have in common (nodelife.Keys), the UID of a Node, and the records
// about which a GuardedNode has queries or responses.
const (
	NodeUID       = "metadata.uid"
	Machine       = "machine"
	QueriedRecord = "queriedRecord"
)

// The fields by which pods and records are found: Pods and Records look them up. The key of a record's pod is "namespace/name", that of an address
// is AddressKey.
var (
	PodUID  = Field[*corev1.Pod]{name: "metadata.uid", bucketed: true, keys: func(p *corev1.Pod) []string { return []string{string(p.UID)} }}
	PodNode = Field[*corev1.Pod]{name: "spec.nodeName", keys: func(p *corev1.Pod) []string {
		if p.Spec.NodeName == "" {
			return nil
		}
		return []string{p.Spec.NodeName}
	}}
	RecordPod = Field[*v1alpha1.IPAllocation]{name: "pod", bucketed: true, keys: func(r *v1alpha1.IPAllocation) []string {
		return []string{r.Spec.PodNamespace + "/" + r.Spec.PodName}
	}}
	RecordNode    = Field[*v1alpha1.IPAllocation]{name: "node", keys: func(r *v1alpha1.IPAllocation) []string { return []string{r.Spec.NodeName} }}
	RecordAddress = Field[*v1alpha1.IPAllocation]{name: "address", bucketed: true, keys: AddressKeys}
	RecordSandbox = Field[*v1alpha1.IPAllocation]{name: "sandbox", bucketed: true, keys: SandboxIDs}
	RecordNodeUID = Field[*v1alpha1.IPAllocation]{name: "nodeUID", keys: func(r *v1alpha1.IPAllocation) []string {
		var keys []string
		for _, uid := range nodelife.NamedBy(r) {
			keys = append(keys, string(uid))
		}
		return keys
	}}
)

// Index is one way to look objects of a kind up.
type Index struct {
	Object client.Object
	Field  string
	Keys   client.IndexerFunc
}

// All are the indexes of the cache.
var All = []Index{
	{&corev1.Pod{}, PodUID.name, PodUID.indexed},
	{&corev1.Pod{}, PodNode.name, PodNode.indexed},
	{&v1alpha1.IPAllocation{}, RecordPod.name, RecordPod.indexed},
	{&v1alpha1.IPAllocation{}, RecordNode.name, RecordNode.indexed},
	{&v1alpha1.IPAllocation{}, RecordAddress.name, RecordAddress.indexed},
	{&v1alpha1.IPAllocation{}, RecordSandbox.name, RecordSandbox.indexed},
	{&v1alpha1.IPAllocation{}, RecordNodeUID.name, RecordNodeUID.indexed},
	{&corev1.Node{}, NodeUID, func(o client.Object) []string { return []string{string(o.GetUID())} }},
	{&corev1.Node{}, Machine, Field[*corev1.Node]{keys: func(n *corev1.Node) []string { return nodelife.Keys(facts.Identity(n)) }}.indexed},
	{&v1alpha1.GuardedNode{}, Machine, Field[*v1alpha1.GuardedNode]{keys: nodelife.KeysOf}.indexed},
	{&v1alpha1.GuardedNode{}, QueriedRecord, Field[*v1alpha1.GuardedNode]{keys: QueriedRecords}.indexed},
}

// Setup registers every index. IndexField of the cache would index each pod by its namespace and key too, which no look-up names and which takes as much
// again; the names and keys are those that the cache gives a look-up in all namespaces.
func Setup(ctx context.Context, informers cache.Informers) error {
	for _, index := range All {
		informer, err := informers.GetInformer(ctx, index.Object, cache.BlockUntilSynced(false))
		if err == nil {
			err = informer.AddIndexers(toolscache.Indexers{"field:" + index.Field: index.inAllNamespaces})
		}
		if err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.Object, index.Field, err)
		}
	}
	return nil
}

func (i *Index) inAllNamespaces(object any) ([]string, error) {
	typed, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the cache has a %T", object)
	}
	var keys []string
	for _, key := range i.Keys(typed) {
		keys = append(keys, "__all_namespaces/"+key)
	}
	return keys, nil
}

// AddressKey is the key of an address of a pool ("namespace/name").
func AddressKey(backend, pool, ip string) string { return backend + "|" + pool + "|" + ip }

// AddressKeys are those of a record's addresses.
func AddressKeys(r *v1alpha1.IPAllocation) []string {
	keys := make([]string, 0, len(r.Spec.Addresses))
	for i := range r.Spec.Addresses {
		keys = append(keys, AddressKey(r.Spec.Addresses[i].Backend, r.Spec.Addresses[i].Pool, r.Spec.Addresses[i].IP))
	}
	return keys
}

// QueriedRecords are the names of the records about which a GuardedNode has queries or responses, each once.
func QueriedRecords(node *v1alpha1.GuardedNode) []string {
	names := sets.New[string]()
	for i := range node.Spec.Queries {
		names.Insert(node.Spec.Queries[i].Record)
	}
	for i := range node.Status.Responses {
		names.Insert(node.Status.Responses[i].Record)
	}
	return sets.List(names)
}

// SandboxIDs are those of a record's sandboxes; r may be nil.
func SandboxIDs(r *v1alpha1.IPAllocation) []string {
	if r == nil {
		return nil
	}
	ids := make([]string, 0, len(r.Spec.Sandboxes))
	for i := range r.Spec.Sandboxes {
		ids = append(ids, r.Spec.Sandboxes[i].ID)
	}
	return ids
}
