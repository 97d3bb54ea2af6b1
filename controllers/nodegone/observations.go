// SPDX-License-Identifier: Apache-2.0

package nodegone

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	// reuse is how long one live list serves the many records of one dead node.
	reuse = 30 * time.Second
)

// Observer keeps the live lists in which a machine or a kubelet that is thought gone may show itself. One list serves the many
// records of a dead node.
type Observer struct {
	live client.Reader
	// delay is nodeGoneDelay.
	delay         time.Duration
	clock         clock.PassiveClock
	policiesSince func(context.Context) (time.Time, error)

	mu       sync.Mutex
	read     time.Time // when the list of nodes began
	listed   machines
	kubelets map[string]kubeletObservation // by node
	rounds   rounds
}

// New has read no list yet. The delay is nodeGoneDelay, and policiesSince says from when on policies keep others from writing what a kubelet
// reports.
func New(live client.Reader, c clock.PassiveClock, delay time.Duration, policiesSince func(context.Context) (time.Time, error)) *Observer {
	return &Observer{live: live, clock: c, delay: delay, policiesSince: policiesSince}
}

// rounds are the lists of Nodes that this process has read, as far as they followed each other within maxGap.
type rounds struct {
	since, last time.Time
	// seen is when a list last showed a Node's name, its hardware or its boot.
	seen map[string]time.Time
}

func nameKey(node string) string { return "name " + node }

// machineKeys are what tells that a machine was registered in a list.
func machineKeys(node v1alpha1.NodeIdentity) []string {
	var keys []string
	if node.MachineID != "" && node.SystemUUID != "" {
		keys = append(keys, "machine "+node.MachineID+" "+node.SystemUUID)
	}
	if node.BootID != "" {
		keys = append(keys, "boot "+node.BootID)
	}
	return keys
}

// note adds a list of Nodes that began at that time.
func (r *rounds) note(began time.Time, listed []corev1.Node) {
	if r.last.IsZero() || began.Sub(r.last) > maxGap {
		*r = rounds{since: began, seen: map[string]time.Time{}}
	}
	r.last = began
	for i := range listed {
		for _, key := range append(machineKeys(facts.Identity(&listed[i])), nameKey(listed[i].Name)) {
			r.seen[key] = began
		}
	}
}

// absentSince says whether Nodes were listed, without a gap, from a moment until now, and none of the keys was in a list.
func (f *Observer) absentSince(from time.Time, keys ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.rounds
	if r.since.IsZero() || r.since.After(from.Add(maxGap)) || f.clock.Now().Sub(r.last) > maxGap {
		return false
	}
	return !slices.ContainsFunc(keys, func(key string) bool { return r.seen[key].After(from) })
}

type kubeletObservation struct {
	read  time.Time
	wrote *metav1.Time
}

// machines are the names of the Nodes under which machines are registered, by hardware and by boot (invariant I3: never
// by a node's name).
type machines struct {
	byHardware map[[2]string][]string
	byBoot     map[string]string
}

func (m machines) find(node v1alpha1.NodeIdentity) (name string, found bool) {
	if node.MachineID != "" && node.SystemUUID != "" {
		if names := m.byHardware[[2]string{node.MachineID, node.SystemUUID}]; len(names) > 0 {
			return names[0], true
		}
	}
	if node.BootID == "" {
		return "", false
	}
	name, found = m.byBoot[node.BootID]
	return name, found
}

// twin is another Node with the machine ID and system UUID of a machine, if there is one.
func (m machines) twin(of v1alpha1.NodeIdentity, name string) (string, bool) {
	names := m.byHardware[[2]string{of.MachineID, of.SystemUUID}]
	at := slices.IndexFunc(names, func(other string) bool { return other != name })
	if at < 0 {
		return "", false
	}
	return names[at], true
}

// fresh says whether a list that began at read may serve who needs one that began at since or later.
func (f *Observer) fresh(read, since time.Time) bool {
	return !read.IsZero() && !read.Before(since) && f.clock.Now().Sub(read) < reuse
}

// machines lists every Node, past every cache, unless a list that began at since or later is at hand.
func (f *Observer) machines(ctx context.Context, since time.Time) (machines, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fresh(f.read, since) {
		return f.listed, nil
	}
	began := f.clock.Now()
	found := machines{byHardware: map[[2]string][]string{}, byBoot: map[string]string{}}
	var listed []corev1.Node
	for nodes, err := range pages.Of[corev1.NodeList](ctx, f.live) {
		if err != nil {
			return machines{}, fmt.Errorf("listing nodes for a machine that came back under another name: %w", err)
		}
		for i := range nodes.Items {
			info, name := &nodes.Items[i].Status.NodeInfo, nodes.Items[i].Name
			hardware := [2]string{info.MachineID, info.SystemUUID}
			found.byHardware[hardware] = append(found.byHardware[hardware], name)
			found.byBoot[info.BootID] = name
		}
		for i := range nodes.Items {
			listed = append(listed, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes.Items[i].Name}, Status: corev1.NodeStatus{NodeInfo: nodes.Items[i].Status.NodeInfo}})
		}
	}
	f.rounds.note(began, listed)
	f.read, f.listed = began, found
	return found, nil
}

// kubeletWrote is when a kubelet last wrote the status of a pod of a node, by the clock of the API server; nil if the pods do not
// show it. A kubelet whose Node object is gone goes on terminating pods, and reports it. Other clients can write as the kubelet, so
// only pods count on which the policies refuse them that.
func (f *Observer) kubeletWrote(ctx context.Context, node string, since time.Time) (*metav1.Time, error) {
	// The first call waits for a cache to fill, so the lock is not held.
	judged, err := f.policiesSince(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if seen := f.kubelets[node]; f.fresh(seen.read, since) {
		return seen.wrote, nil
	}
	seen := kubeletObservation{read: f.clock.Now()}
	for pods, err := range pages.Of[corev1.PodList](ctx, f.live, client.MatchingFields{index.PodNode: node}) {
		if err != nil {
			return nil, fmt.Errorf("listing the pods of node %s for a sign of its kubelet: %w", node, err)
		}
		for i := range pods.Items {
			if wrote := release.SignOfLife(&pods.Items[i], judged); seen.wrote == nil || seen.wrote.Before(wrote) {
				seen.wrote = wrote
			}
		}
	}
	f.keep(node, seen)
	return seen.wrote, nil
}

// keep forgets the nodes that nobody asks for any more.
func (f *Observer) keep(node string, seen kubeletObservation) {
	for name, old := range f.kubelets {
		if !f.fresh(old.read, time.Time{}) {
			delete(f.kubelets, name)
		}
	}
	if f.kubelets == nil {
		f.kubelets = map[string]kubeletObservation{}
	}
	f.kubelets[node] = seen
}
