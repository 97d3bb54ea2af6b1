// SPDX-License-Identifier: Apache-2.0

// Package index has the indexes of pods and records in the manager's cache.
package index

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// The fields. A pod is found by its UID or its node; a record by its pod ("namespace/name"), its node, an address
// (AddressKey), a sandbox ID or a Node UID that it names. Nodes and GuardedNodes are found by what their machines may have in common
// (nodelife.Keys), a Node by its UID, and a GuardedNode by the records about which it has queries or responses.
const (
	PodUID        = "metadata.uid"
	PodNode       = "spec.nodeName"
	RecordPod     = "pod"
	RecordNode    = "node"
	RecordAddress = "address"
	RecordSandbox = "sandbox"
	RecordNodeUID = "nodeUID"
	NodeUID       = PodUID
	Machine       = "machine"
	QueriedRecord = "queriedRecord"
)

// Index is one way to look objects of a kind up.
type Index struct {
	Object client.Object
	Field  string
	Keys   client.IndexerFunc
}

// All are the indexes of the cache.
var All = []Index{
	{&corev1.Pod{}, PodUID, func(o client.Object) []string { return []string{string(o.GetUID())} }},
	{&corev1.Pod{}, PodNode, func(o client.Object) []string {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}
		}
		return nil
	}},
	{&v1alpha1.IPAllocation{}, RecordPod, of(func(r *v1alpha1.IPAllocation) []string { return []string{r.Spec.PodNamespace + "/" + r.Spec.PodName} })},
	{&v1alpha1.IPAllocation{}, RecordNode, of(func(r *v1alpha1.IPAllocation) []string { return []string{r.Spec.NodeName} })},
	{&v1alpha1.IPAllocation{}, RecordAddress, of(AddressKeys)},
	{&v1alpha1.IPAllocation{}, RecordSandbox, of(SandboxIDs)},
	{&v1alpha1.IPAllocation{}, RecordNodeUID, of(func(r *v1alpha1.IPAllocation) []string {
		var keys []string
		for _, uid := range nodelife.NamedBy(r) {
			keys = append(keys, string(uid))
		}
		return keys
	})},
	{&corev1.Node{}, NodeUID, func(o client.Object) []string { return []string{string(o.GetUID())} }},
	{&corev1.Node{}, Machine, func(o client.Object) []string {
		if node, ok := o.(*corev1.Node); ok {
			return nodelife.Keys(facts.Identity(node))
		}
		return nil
	}},
	{&v1alpha1.GuardedNode{}, Machine, func(o client.Object) []string {
		if node, ok := o.(*v1alpha1.GuardedNode); ok {
			return nodelife.KeysOf(node)
		}
		return nil
	}},
	{&v1alpha1.GuardedNode{}, QueriedRecord, func(o client.Object) []string {
		if node, ok := o.(*v1alpha1.GuardedNode); ok {
			return QueriedRecords(node)
		}
		return nil
	}},
}

// Setup registers every index.
func Setup(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range All {
		if err := indexer.IndexField(ctx, index.Object, index.Field, index.Keys); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.Object, index.Field, err)
		}
	}
	return nil
}

// Records are the records with a key, from the cache.
func Records(ctx context.Context, cached client.Reader, field, key string) ([]v1alpha1.IPAllocation, error) {
	var records v1alpha1.IPAllocationList
	if err := cached.List(ctx, &records, client.MatchingFields{field: key}); err != nil {
		return nil, err
	}
	return records.Items, nil
}

// PodRecords are the UIDs of the pods with a record that has a key, from the cache. Records of orphans have no pod UID.
func PodRecords(ctx context.Context, cached client.Reader, field, key string) []types.UID {
	records, err := Records(ctx, cached, field, key)
	if err != nil {
		return nil
	}
	names := make([]types.UID, 0, len(records))
	for i := range records {
		if !strings.HasPrefix(records[i].Name, v1alpha1.OrphanPrefix) {
			names = append(names, types.UID(records[i].Name))
		}
	}
	return names
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

// SandboxIDs are those of a record's sandboxes.
func SandboxIDs(r *v1alpha1.IPAllocation) []string {
	ids := make([]string, 0, len(r.Spec.Sandboxes))
	for i := range r.Spec.Sandboxes {
		ids = append(ids, r.Spec.Sandboxes[i].ID)
	}
	return ids
}

func of(keys func(*v1alpha1.IPAllocation) []string) client.IndexerFunc {
	return func(o client.Object) []string {
		record, ok := o.(*v1alpha1.IPAllocation)
		if !ok {
			return nil
		}
		return keys(record)
	}
}
