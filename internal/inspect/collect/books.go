// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/claim"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// bookkeeper puts together what the manager's own audit compares (controllers/audit), from live reads alone.
type bookkeeper struct {
	*Cluster
	backend  ipam.Auditable
	networks *claim.Networks
	// undefined: network definitions are not served.
	undefined bool
}

// keepBooks makes a bookkeeper.
func keepBooks(c *Cluster, backend ipam.Auditable) *bookkeeper {
	k := &bookkeeper{Cluster: c, backend: backend}
	k.networks = claim.Of(backend, k.network)
	return k
}

func (k *bookkeeper) facts(ctx context.Context, pods []corev1.Pod, f *audit.Facts, snapshot ipam.Snapshot) (ipamaudit.Facts, error) {
	books := ipamaudit.Facts{Doubtful: sets.New[string](), Slices: map[string]sets.Set[string]{}}
	divided, err := k.backend.SlicePools(ctx)
	if err != nil {
		return ipamaudit.Facts{}, readError(err, "list", "nodeslicepools.whereabouts.cni.cncf.io", everywhere)
	}
	for _, pool := range divided {
		books.Slices[pool.String()] = pool.Owners()
	}
	for i := range pods {
		if k.pod(ctx, &pods[i], &books); k.networks.Err() != nil {
			return ipamaudit.Facts{}, k.networks.Err()
		}
	}
	if f.Managed = k.managed(ctx, f.Pods); k.networks.Err() != nil {
		return ipamaudit.Facts{}, k.networks.Err()
	}
	k.entries(&books, f, snapshot, divided)
	f.Unserved.Definitions = k.undefined
	return books, k.reservations(ctx, &books, f)
}

// reservations come last. Where there is no such type, nobody lacks one.
func (k *bookkeeper) reservations(ctx context.Context, books *ipamaudit.Facts, f *audit.Facts) error {
	reservations, err := k.backend.Reservations(ctx)
	if meta.IsNoMatchError(err) {
		err = k.unserved(ctx, inspect.ReservationResource, ippools.Version, err)
	}
	if f.Unserved.Reservations = isNotServed(err); f.Unserved.Reservations {
		for i := range books.Pods {
			for j := range books.Pods[i].Shown {
				books.Pods[i].Shown[j].Reserved = false
			}
		}
		return nil
	}
	if err != nil {
		return readError(err, "list", inspect.ReservationResource, everywhere)
	}
	for _, r := range reservations {
		if _, ok := ipam.ParsePodRef(r.PodRef); ok {
			books.Reservations = append(books.Reservations, ipamaudit.Reservation{Name: r.Name, PodRef: r.PodRef, Interface: r.Interface})
		}
	}
	return nil
}

func (k *bookkeeper) pod(ctx context.Context, pod *corev1.Pod, books *ipamaudit.Facts) {
	ref := pod.Namespace + "/" + pod.Name
	if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
		books.Pods = append(books.Pods, ipamaudit.Pod{Ref: ref, UID: pod.UID, Shown: k.networks.Shown(ctx, pod)})
	}
	if pod.Spec.NodeName == "" || release.PodEnding(pod).ByKubelet() {
		return
	}
	if divided := k.networks.Divided(ctx, pod); len(divided) > 0 { // the pod has an ADD before it, or a DEL
		books.Starting = append(books.Starting, ipamaudit.Starting{Ref: ref, UID: pod.UID, Node: pod.Spec.NodeName, Divided: divided})
	}
}

// managed are the networks of all pods whose IPAM is the backend's.
func (k *bookkeeper) managed(ctx context.Context, pods []audit.Pod) sets.Set[string] {
	names := sets.New[string]()
	for i := range pods {
		for j := range pods[i].Shown {
			if k.networks.Err() != nil {
				return nil
			}
			if name := pods[i].Shown[j].Network; k.networks.Named(ctx, name).Managed {
				names.Insert(name)
			}
		}
	}
	return names
}

func (k *bookkeeper) entries(books *ipamaudit.Facts, f *audit.Facts, snapshot ipam.Snapshot, divided []*ipam.SlicePool) {
	for i := range snapshot.Problems {
		books.Doubtful.Insert(snapshot.Problems[i].PodRef)
		books.Unreadable = books.Unreadable || snapshot.Problems[i].Offset == ""
	}
	nodes := sets.New[string]()
	for i := range f.Nodes {
		nodes.Insert(f.Nodes[i].Name)
	}
	for i := range f.Records {
		nodes.Insert(f.Records[i].Spec.NodeName)
	}
	ofPool := map[string]ipamaudit.Slice{}
	for i := range snapshot.Entries {
		e := &snapshot.Entries[i]
		slice, known := ofPool[e.Pool]
		if !known {
			slice = k.sliceOf(e.Pool, divided, nodes)
			ofPool[e.Pool] = slice
		}
		entry := ipamaudit.Entry{Pool: e.Pool, IP: e.IP, PodRef: e.PodRef, Interface: e.Interface, Releasing: e.Releasing != "",
			Reservations: k.backend.ReservationNames(e), Slice: slice}
		if len(entry.Reservations) == 0 {
			books.Doubtful.Insert(e.PodRef)
		}
		books.Entries = append(books.Entries, entry)
	}
}

func (k *bookkeeper) sliceOf(pool string, divided []*ipam.SlicePool, nodes sets.Set[string]) ipamaudit.Slice {
	for _, of := range divided {
		for _, slice := range of.Slices {
			if node := k.backend.NodeOf(pool, of, slice, nodes.Has); node != "" {
				return ipamaudit.Slice{Name: of.String() + " " + slice.Range, For: node, Node: slice.Node}
			}
		}
	}
	return ipamaudit.Slice{}
}

// network reads the definition of a network. Of one that is not there, or is of a type that is not served, nothing is said.
func (k *bookkeeper) network(ctx context.Context, ref ipam.PodRef) (*nadv1.NetworkAttachmentDefinition, error) {
	if k.undefined {
		return nil, nil
	}
	definition, err := k.definition(ctx, ref)
	if k.undefined = isNotServed(err); k.undefined {
		return nil, nil
	}
	return definition, err
}
