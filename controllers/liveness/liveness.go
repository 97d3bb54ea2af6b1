// SPDX-License-Identifier: Apache-2.0

// Package liveness reads live Nodes, the signs of their kubelets, and other Nodes that resemble them. One list serves the records of many pods.
package liveness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/sharedread"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=kube-node-lease,resources=leases,verbs=get

// reuse is how long a live list is used.
const reuse = 30 * time.Second

// Observer keeps recent live lists. It is safe for concurrent use.
type Observer struct {
	live          client.Reader
	clock         clock.PassiveClock
	policiesSince func(context.Context) (time.Time, error)

	kubelets sync.Map // *kubelet by the name of its node
	// version is the newest version of pods.
	version *sharedread.Read[string]
	mu      sync.Mutex
	// read is when the list of Nodes began; byHardware has their names by machine ID and system UUID.
	read       time.Time
	byHardware map[[2]string][]string
}

// kubelet has the last list of its node's pods. While one caller lists them, only those wait that ask about the same node: a thousand Nodes may be gone at once.
type kubelet struct {
	listing sync.Mutex
	last    atomic.Pointer[writes]
}

// writes is when a kubelet last wrote, by a list of pods.
type writes struct {
	read  time.Time
	wrote *metav1.Time
}

// New makes an Observer without lists. policiesSince gives since when policies refuse reports of a kubelet by other accounts.
func New(live client.Reader, c clock.PassiveClock, policiesSince func(context.Context) (time.Time, error)) *Observer {
	return &Observer{live: live, clock: c, policiesSince: policiesSince, version: sharedread.New[string]()}
}

// Node reads a Node as a fact. Without a name it reads nothing.
func Node(ctx context.Context, from client.Reader, name string) release.Fact[release.Node] {
	if name == "" {
		return release.Fact[release.Node]{}
	}
	var node corev1.Node
	err := from.Get(ctx, types.NamespacedName{Name: name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return release.Absent[release.Node]()
	case err != nil:
		return release.Unknown[release.Node](err.Error())
	}
	return release.Known(facts.Node(&node))
}

// Twin names another Node with the IDs of a machine of the record that the Node resembles; empty if there is none.
func (o *Observer) Twin(ctx context.Context, record *v1alpha1.IPAllocation, node release.Fact[release.Node]) (twin string, err error) {
	if record == nil || !node.IsKnown() {
		return "", nil
	}
	for i := range record.Spec.Sandboxes {
		ran := record.Spec.Sandboxes[i].Node
		if ran == nil || release.Compare(release.MachineOf(*ran), node.Get().Machine) != release.Resembling {
			continue
		}
		nodes, err := o.nodes(ctx)
		if err != nil {
			return "", err
		}
		names := nodes[[2]string{ran.MachineID, ran.SystemUUID}]
		if at := slices.IndexFunc(names, func(name string) bool { return name != node.Get().Name }); at >= 0 {
			twin = names[at]
		}
	}
	return twin, nil
}

// nodes are the names of all Nodes by machine ID and system UUID, read live.
func (o *Observer) nodes(ctx context.Context) (map[[2]string][]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isFresh(o.read, time.Time{}) {
		return o.byHardware, nil
	}
	began, found := o.clock.Now(), map[[2]string][]string{}
	for nodes, err := range pages.Of[corev1.NodeList](ctx, o.live) {
		if err != nil {
			return nil, fmt.Errorf("listing Nodes for one with the IDs of another machine: %w", err)
		}
		for i := range nodes.Items {
			machine := facts.Identity(&nodes.Items[i])
			hardware := [2]string{machine.MachineID, machine.SystemUUID}
			found[hardware] = append(found[hardware], nodes.Items[i].Name)
		}
	}
	o.read, o.byHardware = began, found
	return found, nil
}

// isFresh says whether a list that began at read may be used by a caller that needs one that began at since or later.
func (o *Observer) isFresh(read, since time.Time) bool {
	return !read.IsZero() && !read.Before(since) && o.clock.Now().Sub(read) < reuse
}

// Kubelet reads the signs of a node's kubelet, from lists that began at since or later.
func (o *Observer) Kubelet(ctx context.Context, node string, since time.Time) (seen nodelife.Kubelet, err error) {
	var lease coordinationv1.Lease
	err = o.live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return seen, fmt.Errorf("reading the Lease of node %s for signs that the machine is alive: %w", node, err)
	}
	seen.LeaseRenewed = lease.Spec.RenewTime
	seen.Wrote, err = o.kubeletWrote(ctx, node, since)
	return seen, err
}

// kubeletWrote is when a kubelet last wrote the status of a pod of a node, by the clock of the API server; nil if no pod shows it. A kubelet whose
// Node object was deleted still terminates pods and reports that. Only pods count for which the policies refuse such writes by other clients.
func (o *Observer) kubeletWrote(ctx context.Context, node string, since time.Time) (*metav1.Time, error) {
	judged, err := o.policiesSince(ctx)
	if err != nil {
		return nil, err
	}
	kept, _ := o.kubelets.LoadOrStore(node, &kubelet{})
	asked := kept.(*kubelet)
	asked.listing.Lock()
	defer asked.listing.Unlock()
	if seen := asked.last.Load(); seen != nil && o.isFresh(seen.read, since) {
		return seen.wrote, nil
	}
	seen := &writes{read: o.clock.Now()}
	pods, err := o.podsOf(ctx, node)
	if err != nil {
		o.kubelets.CompareAndDelete(node, kept)
		return nil, fmt.Errorf("listing the pods of node %s for a sign of its kubelet: %w", node, err)
	}
	for i := range pods {
		if wrote := release.SignOfLife(&pods[i], judged); seen.wrote == nil || seen.wrote.Before(wrote) {
			seen.wrote = wrote
		}
	}
	asked.last.Store(seen)
	o.kubelets.Store(node, asked) // another node's call may have deleted it, as out of date
	o.kubelets.Range(func(name, other any) bool {
		if last := other.(*kubelet).last.Load(); last != nil && !o.isFresh(last.read, time.Time{}) {
			o.kubelets.CompareAndDelete(name, other)
		}
		return true
	})
	return seen.wrote, nil
}

// podsOf lists the pods of a node, from the API server's watch cache once that has the newest version of pods. A list that names no version is made from
// etcd if the cache is late, and then reads every pod: a thousand of them, when as many Nodes go, would keep the cache late (docs/decisions/0326).
func (o *Observer) podsOf(ctx context.Context, node string) ([]corev1.Pod, error) {
	version, err := o.version.Get(ctx, func(ctx context.Context) (string, error) {
		var none metav1.PartialObjectMetadataList // of a name that no pod has: the version of a list is that of all pods, and any other list would read some
		none.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := o.live.List(ctx, &none, client.InNamespace(metav1.NamespaceSystem), client.MatchingFields{"metadata.name": "holdfast.version"})
		return none.ResourceVersion, err
	})
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	err = o.live.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}})
	return pods.Items, err
}
