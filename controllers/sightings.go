// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	// sightingsPage bounds one answer of the API server.
	sightingsPage = 500
	// sightingsReuse is how long one live list serves the many records of one dead node.
	sightingsReuse = 30 * time.Second
)

// sightings are live lists in which a machine or a kubelet that is thought gone may show itself. One list serves the many
// records of a dead node.
type sightings struct {
	live  client.Reader
	clock clock.PassiveClock

	mu       sync.Mutex
	read     time.Time // when the list of nodes began
	listed   machines
	kubelets map[string]kubeletSighting // by node
}

type kubeletSighting struct {
	read  time.Time
	wrote *metav1.Time
}

// machines are the names of the Nodes under which machines are registered, by hardware and by boot (invariant I3: never
// by a node's name).
type machines struct {
	byHardware map[[2]string]string
	byBoot     map[string]string
}

func (m machines) find(node v1alpha1.NodeIdentity) (name string, found bool) {
	if node.MachineID != "" && node.SystemUUID != "" {
		if name, found = m.byHardware[[2]string{node.MachineID, node.SystemUUID}]; found {
			return name, true
		}
	}
	if node.BootID == "" {
		return "", false
	}
	name, found = m.byBoot[node.BootID]
	return name, found
}

// fresh says whether a list that began at read may serve who needs one that began at since or later.
func (s *sightings) fresh(read, since time.Time) bool {
	return !read.IsZero() && !read.Before(since) && s.clock.Now().Sub(read) < sightingsReuse
}

// machines lists every Node, past every cache, unless a list that began at since or later is at hand.
func (s *sightings) machines(ctx context.Context, since time.Time) (machines, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh(s.read, since) {
		return s.listed, nil
	}
	began := s.clock.Now()
	found := machines{byHardware: map[[2]string]string{}, byBoot: map[string]string{}}
	for page, more := "", true; more; more = page != "" {
		var nodes corev1.NodeList
		if err := s.live.List(ctx, &nodes, client.Limit(sightingsPage), client.Continue(page)); err != nil {
			return machines{}, fmt.Errorf("listing nodes for a machine that came back under another name: %w", err)
		}
		for i := range nodes.Items {
			info, name := &nodes.Items[i].Status.NodeInfo, nodes.Items[i].Name
			found.byHardware[[2]string{info.MachineID, info.SystemUUID}] = name
			found.byBoot[info.BootID] = name
		}
		page = nodes.Continue
	}
	s.read, s.listed = began, found
	return found, nil
}

// kubeletWrote is when a kubelet last wrote the status of any pod of a node, by the clock of the API server; nil if the
// pods do not say. A kubelet whose Node object is gone goes on ending pods, and reports it.
func (s *sightings) kubeletWrote(ctx context.Context, node string, since time.Time) (*metav1.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := s.kubelets[node]; s.fresh(seen.read, since) {
		return seen.wrote, nil
	}
	seen := kubeletSighting{read: s.clock.Now()}
	for page, more := "", true; more; more = page != "" {
		var pods corev1.PodList
		if err := s.live.List(ctx, &pods, client.MatchingFields{indexPodNode: node}, client.Limit(sightingsPage), client.Continue(page)); err != nil {
			return nil, fmt.Errorf("listing the pods of node %s for a sign of life of its kubelet: %w", node, err)
		}
		for i := range pods.Items {
			if wrote := lastKubeletWrite(&pods.Items[i]); seen.wrote == nil || seen.wrote.Before(wrote) {
				seen.wrote = wrote
			}
		}
		page = pods.Continue
	}
	s.keep(node, seen)
	return seen.wrote, nil
}

// keep forgets the nodes that nobody asks for any more.
func (s *sightings) keep(node string, seen kubeletSighting) {
	for name, old := range s.kubelets {
		if !s.fresh(old.read, time.Time{}) {
			delete(s.kubelets, name)
		}
	}
	if s.kubelets == nil {
		s.kubelets = map[string]kubeletSighting{}
	}
	s.kubelets[node] = seen
}

func lastKubeletWrite(pod *corev1.Pod) *metav1.Time {
	var last *metav1.Time
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		if release.IsKubelet(entry) && entry.Subresource == "status" && entry.Time != nil && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}
