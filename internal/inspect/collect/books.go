// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// bookkeeper puts together what the manager's own audit compares (controllers/audit), from live reads alone.
type bookkeeper struct {
	*Cluster
	backend  ipam.Auditable
	networks map[string]network
	// undefined: network definitions are not served.
	undefined bool
}

// network is what an audit needs of a network.
type network struct {
	managed, reserved bool
	// divided names the object that divides the network's range among nodes.
	divided string
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
		if err := k.pod(ctx, &pods[i], &books); err != nil {
			return ipamaudit.Facts{}, err
		}
	}
	if f.Managed, err = k.managed(ctx, f.Pods); err != nil {
		return ipamaudit.Facts{}, err
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

func (k *bookkeeper) pod(ctx context.Context, pod *corev1.Pod, books *ipamaudit.Facts) error {
	ref := pod.Namespace + "/" + pod.Name
	if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
		live := ipamaudit.Pod{Ref: ref, UID: pod.UID}
		addresses, _ := podnetwork.StatusAddresses(pod.Annotations) // what cannot be read says nothing
		for i := range addresses {
			a := &addresses[i]
			n, err := k.network(ctx, a.Network)
			if err != nil {
				return err
			}
			managed := n.managed && k.backend.Covers(a.IP)
			live.Shown = append(live.Shown, ipamaudit.Shown{IP: a.IP, Interface: a.Interface, Network: a.Network, Managed: managed, Reserved: managed && n.reserved})
		}
		books.Pods = append(books.Pods, live)
	}
	return k.starting(ctx, pod, books)
}

// managed are the networks of all pods whose IPAM is the backend's.
func (k *bookkeeper) managed(ctx context.Context, pods []audit.Pod) (sets.Set[string], error) {
	names := sets.New[string]()
	for i := range pods {
		for j := range pods[i].Shown {
			n, err := k.network(ctx, pods[i].Shown[j].Network)
			if err != nil {
				return nil, err
			}
			if n.managed {
				names.Insert(pods[i].Shown[j].Network)
			}
		}
	}
	return names, nil
}

// starting notes the divided networks of a pod that has an ADD before it, or a DEL.
func (k *bookkeeper) starting(ctx context.Context, pod *corev1.Pod, books *ipamaudit.Facts) error {
	if pod.Spec.NodeName == "" || release.PodEnding(pod).ByKubelet() {
		return nil
	}
	attachments, _ := podnetwork.Attachments(pod.Annotations, pod.Namespace, "")
	starting := ipamaudit.Starting{Ref: pod.Namespace + "/" + pod.Name, UID: pod.UID, Node: pod.Spec.NodeName}
	for _, attachment := range attachments {
		n, err := k.network(ctx, attachment.String())
		if err != nil {
			return err
		}
		if n.divided != "" && !slices.Contains(starting.Divided, n.divided) {
			starting.Divided = append(starting.Divided, n.divided)
		}
	}
	if len(starting.Divided) > 0 {
		books.Starting = append(books.Starting, starting)
	}
	return nil
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

// network says whether the IPAM gives addresses of a network and reserves them. Of one that is not there nothing is said.
func (k *bookkeeper) network(ctx context.Context, name string) (network, error) {
	if n, ok := k.networks[name]; ok {
		return n, nil
	}
	var n network
	if ref, ok := ipam.ParsePodRef(name); ok && !k.undefined {
		definition, err := k.definition(ctx, ref)
		if k.undefined = isNotServed(err); err != nil && !k.undefined {
			return n, err
		}
		if definition != nil {
			ipams, err := podnetwork.IPAMsOf(definition.Spec.Config)
			n.managed = err == nil && slices.ContainsFunc(ipams, k.backend.Manages)
			if n.managed {
				n.reserved = k.backend.Reserves(definition.Spec.Config)
				n.divided = k.backend.SlicePool(definition.Spec.Config, definition.Name)
			}
		}
	}
	k.networks[name] = n
	return n, nil
}
