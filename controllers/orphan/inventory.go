// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/orphan"
)

// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=configmaps,resourceNames=holdfast-nodes-0;holdfast-nodes-1;holdfast-nodes-2;holdfast-nodes-3;holdfast-nodes-4;holdfast-nodes-5;holdfast-nodes-6;holdfast-nodes-7;holdfast-nodes-8;holdfast-nodes-9;holdfast-nodes-10;holdfast-nodes-11;holdfast-nodes-12;holdfast-nodes-13;holdfast-nodes-14;holdfast-nodes-15,verbs=get;update

const (
	// inventoryPrefix starts the names of the ConfigMaps that hold the inventory, in the manager's namespace.
	inventoryPrefix = "holdfast-nodes-"
	// inventoryShards is their number: each has a sixteenth of the Nodes, about 100 KB where there are 5,000. It can never be changed
	// without moving what they hold.
	inventoryShards = 16
)

// inventoryStore is the persisted list of every Node ever seen. It is safe for concurrent use.
type inventoryStore struct {
	live      client.Reader
	writer    client.Client
	namespace string

	mu        sync.Mutex
	inventory orphan.Inventory
	shards    [inventoryShards]inventoryShard
	loaded    bool
}

// inventoryShard is what stands in one ConfigMap.
type inventoryShard struct {
	uid     types.UID
	version string
	data    map[string]string
}

func shardOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % inventoryShards)
}

func shardName(shard int) string { return fmt.Sprintf("%s%d", inventoryPrefix, shard) }

// load reads the list, past every cache, unless that was done. What cannot be read of it is an error: a Node that is left out is
// one whose silence nobody asks for.
func (s *inventoryStore) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded {
		return nil
	}
	inventory := orphan.Inventory{}
	for shard := range s.shards {
		read, err := s.readShard(ctx, shard)
		if err != nil {
			return err
		}
		if err := decodeShard(shard, read.data, inventory); err != nil {
			return err
		}
		if read.version == "" && s.shards[shard].version != "" {
			s.keepShard(shard, inventory)
		}
		s.shards[shard] = read
	}
	s.inventory, s.loaded = inventory, true
	return nil
}

// keepShard takes over what this process knows of a ConfigMap that somebody has deleted. Who wants a machine forgotten removes its key.
func (s *inventoryStore) keepShard(shard int, into orphan.Inventory) {
	for key, seen := range s.inventory {
		if shardOf(key) == shard {
			into[key] = seen
		}
	}
}

// decodeShard refuses a copy of a Node under another key: the two may differ in whether the machine is gone.
func decodeShard(shard int, data map[string]string, into orphan.Inventory) error {
	for key, text := range data {
		var seen orphan.Seen
		if err := json.Unmarshal([]byte(text), &seen); err != nil || seen.Node.UID == "" || orphan.KeyOf(seen.Node) != key {
			return fmt.Errorf("reading the node inventory: key %q of ConfigMap %s: expected a Node in JSON under its own key, found %q; remove the key once you know "+
				"that the machine is gone", key, shardName(shard), text)
		}
		into[key] = seen
	}
	return nil
}

func (s *inventoryStore) readShard(ctx context.Context, shard int) (inventoryShard, error) {
	var stored corev1.ConfigMap
	err := s.live.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: shardName(shard)}, &stored)
	if apierrors.IsNotFound(err) {
		return inventoryShard{}, nil
	}
	if err != nil {
		return inventoryShard{}, fmt.Errorf("reading the node inventory: %w", err)
	}
	return inventoryShard{uid: stored.UID, version: stored.ResourceVersion, data: stored.Data}, nil
}

// change works on the list and writes what has changed of it. Nothing counts that is not written: after a failure the list is
// read again.
func (s *inventoryStore) change(ctx context.Context, work func(orphan.Inventory) error) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	worked := maps.Clone(s.inventory)
	if err := work(worked); err != nil {
		return err
	}
	wanted, err := encodeShards(worked)
	if err != nil {
		return err
	}
	var failures []error
	for shard := range s.shards {
		if !maps.Equal(s.shards[shard].data, wanted[shard]) {
			failures = append(failures, s.writeShard(ctx, shard, wanted[shard]))
		}
	}
	if err := errors.Join(failures...); err != nil {
		s.loaded = false
		return err
	}
	s.inventory = worked
	return nil
}

func encodeShards(inventory orphan.Inventory) (wanted [inventoryShards]map[string]string, err error) {
	for key, seen := range inventory {
		text, err := json.Marshal(seen)
		if err != nil {
			return wanted, fmt.Errorf("writing out Node %s: %w", seen.Name, err)
		}
		shard := shardOf(key)
		if wanted[shard] == nil {
			wanted[shard] = map[string]string{}
		}
		wanted[shard][key] = string(text)
	}
	return wanted, nil
}

// writeShard compares UID and resourceVersion: another manager's list is never lost.
func (s *inventoryStore) writeShard(ctx context.Context, shard int, data map[string]string) error {
	before := s.shards[shard]
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: shardName(shard), UID: before.uid,
		ResourceVersion: before.version}, Data: data}
	var err error
	if before.version == "" {
		err = s.writer.Create(ctx, stored, client.FieldOwner(finalizer.FieldManager))
	} else {
		err = s.writer.Update(ctx, stored, client.FieldOwner(finalizer.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing the node inventory: %w", err)
	}
	s.shards[shard] = inventoryShard{uid: stored.UID, version: stored.ResourceVersion, data: data}
	return nil
}

// snapshot is a copy of the list; false while it could not be read.
func (s *inventoryStore) snapshot() (orphan.Inventory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.inventory), s.loaded
}

// find gives the machine of a Node UID in a boot.
func (s *inventoryStore) find(uid types.UID, bootID string) (orphan.Seen, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inventory.Find(uid, bootID)
}
