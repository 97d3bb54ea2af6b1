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
	// rosterPrefix starts the names of the ConfigMaps that hold the roster, in the manager's namespace.
	rosterPrefix = "holdfast-nodes-"
	// rosterShards is their number: each has a sixteenth of the Nodes, about 100 KB where there are 5,000. It can never be changed
	// without moving what they hold.
	rosterShards = 16
)

// rosterStore is the persisted list of every Node ever seen. It is safe for concurrent use.
type rosterStore struct {
	live      client.Reader
	writer    client.Client
	namespace string

	mu     sync.Mutex
	roster orphan.Roster
	shards [rosterShards]rosterShard
	loaded bool
}

// rosterShard is what stands in one ConfigMap.
type rosterShard struct {
	uid     types.UID
	version string
	data    map[string]string
}

func shardOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % rosterShards)
}

func shardName(shard int) string { return fmt.Sprintf("%s%d", rosterPrefix, shard) }

// load reads the list, past every cache, unless that was done. What cannot be read of it is an error: a Node that is left out is
// one whose silence nobody asks for.
func (s *rosterStore) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded {
		return nil
	}
	roster := orphan.Roster{}
	for shard := range s.shards {
		read, err := s.readShard(ctx, shard)
		if err != nil {
			return err
		}
		if err := decodeShard(shard, read.data, roster); err != nil {
			return err
		}
		if read.version == "" && s.shards[shard].version != "" {
			s.keepShard(shard, roster)
		}
		s.shards[shard] = read
	}
	s.roster, s.loaded = roster, true
	return nil
}

// keepShard takes over what this process knows of a ConfigMap that somebody has deleted. Who wants a machine forgotten removes its key.
func (s *rosterStore) keepShard(shard int, into orphan.Roster) {
	for key, seen := range s.roster {
		if shardOf(key) == shard {
			into[key] = seen
		}
	}
}

// decodeShard refuses a copy of a Node under another key: the two may differ in whether the machine is gone.
func decodeShard(shard int, data map[string]string, into orphan.Roster) error {
	for key, text := range data {
		var seen orphan.Seen
		if err := json.Unmarshal([]byte(text), &seen); err != nil || seen.Node.UID == "" || orphan.KeyOf(seen.Node) != key {
			return fmt.Errorf("reading the list of Nodes: key %q of ConfigMap %s: expected a Node in JSON under its own key, found %q; remove the key once you know "+
				"that the machine is gone", key, shardName(shard), text)
		}
		into[key] = seen
	}
	return nil
}

func (s *rosterStore) readShard(ctx context.Context, shard int) (rosterShard, error) {
	var stored corev1.ConfigMap
	err := s.live.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: shardName(shard)}, &stored)
	if apierrors.IsNotFound(err) {
		return rosterShard{}, nil
	}
	if err != nil {
		return rosterShard{}, fmt.Errorf("reading the list of Nodes: %w", err)
	}
	return rosterShard{uid: stored.UID, version: stored.ResourceVersion, data: stored.Data}, nil
}

// change works on the list and writes what has changed of it. Nothing counts that is not written: after a failure the list is
// read again.
func (s *rosterStore) change(ctx context.Context, work func(orphan.Roster) error) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	worked := maps.Clone(s.roster)
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
	s.roster = worked
	return nil
}

func encodeShards(roster orphan.Roster) (wanted [rosterShards]map[string]string, err error) {
	for key, seen := range roster {
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
func (s *rosterStore) writeShard(ctx context.Context, shard int, data map[string]string) error {
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
		return fmt.Errorf("writing the list of Nodes ever seen: %w", err)
	}
	s.shards[shard] = rosterShard{uid: stored.UID, version: stored.ResourceVersion, data: data}
	return nil
}

// snapshot is a copy of the list; false while it could not be read.
func (s *rosterStore) snapshot() (orphan.Roster, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.roster), s.loaded
}

// find gives the machine of a Node UID in a boot.
func (s *rosterStore) find(uid types.UID, bootID string) (orphan.Seen, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roster.Find(uid, bootID)
}
