// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// auditNetwork is what an audit needs of a network.
type auditNetwork struct{ managed, reserved bool }

// auditNetworks are the networks that one audit has looked at, by "namespace/name".
type auditNetworks map[string]auditNetwork

// observe reads pods and pools from the cache, and the reservations, which nobody caches, live and last: whereabouts writes
// an entry first and its reservation second.
func (a *auditor) observe(ctx context.Context) (ipamaudit.Facts, error) {
	var pods corev1.PodList
	if err := a.client.List(ctx, &pods); err != nil {
		return ipamaudit.Facts{}, fmt.Errorf("listing the guarded pods: %w", err)
	}
	snapshot := a.backend.All()
	facts := a.facts(ctx, pods.Items, &snapshot)
	return facts, a.addReservations(ctx, &facts)
}

// observeLive reads what concerns some findings past every cache.
func (a *auditor) observeLive(ctx context.Context, due []*knownFinding) (ipamaudit.Facts, error) {
	refs := sets.New[string]()
	for _, k := range due {
		refs.Insert(k.PodRef)
		if k.Other != "" {
			refs.Insert(k.Other)
		}
	}
	var pods []corev1.Pod
	var snapshot ipam.Snapshot
	for _, text := range sets.List(refs) {
		ref, ok := podRefOf(text)
		if !ok {
			continue
		}
		var pod corev1.Pod
		err := a.live.Get(ctx, types.NamespacedName(ref), &pod)
		if err != nil && !apierrors.IsNotFound(err) {
			return ipamaudit.Facts{}, fmt.Errorf("reading pod %s, about which the audit found something: %w", ref, err)
		}
		if err == nil {
			pods = append(pods, pod)
		}
		held, err := a.backend.Live(ctx, ipam.Query{Pod: ref})
		if err != nil {
			return ipamaudit.Facts{}, fmt.Errorf("reading the entries of pod %s, about which the audit found something: %w", ref, err)
		}
		snapshot.Entries = append(snapshot.Entries, held.Entries...)
		snapshot.Problems = append(snapshot.Problems, held.Problems...)
	}
	all := a.backend.All() // entries whose release has begun name no pod
	for i := range all.Entries {
		if all.Entries[i].Releasing != "" {
			snapshot.Entries = append(snapshot.Entries, all.Entries[i])
		}
	}
	snapshot.Problems = append(snapshot.Problems, all.Problems...)
	facts := a.facts(ctx, pods, &snapshot)
	return facts, a.addReservations(ctx, &facts)
}

func (a *auditor) addReservations(ctx context.Context, facts *ipamaudit.Facts) error {
	reservations, err := a.backend.Reservations(ctx)
	for _, r := range reservations {
		if _, ok := podRefOf(r.PodRef); ok {
			facts.Reservations = append(facts.Reservations, ipamaudit.Reservation(r))
		}
	}
	return err
}

func (a *auditor) facts(ctx context.Context, pods []corev1.Pod, snapshot *ipam.Snapshot) ipamaudit.Facts {
	facts := ipamaudit.Facts{Doubtful: sets.New[string]()}
	for i := range snapshot.Problems {
		facts.Doubtful.Insert(snapshot.Problems[i].PodRef)
		facts.Unreadable = facts.Unreadable || snapshot.Problems[i].Offset == ""
	}
	for i := range snapshot.Entries {
		e := &snapshot.Entries[i]
		names := a.backend.ReservationNames(e)
		if len(names) == 0 {
			facts.Doubtful.Insert(e.PodRef)
		}
		facts.Entries = append(facts.Entries, ipamaudit.Entry{Pool: e.Pool, IP: e.IP, PodRef: e.PodRef, Interface: e.Interface,
			Releasing: e.Releasing != "", Reservations: names})
	}
	networks := auditNetworks{}
	for i := range pods {
		if pod := &pods[i]; pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			facts.Pods = append(facts.Pods, ipamaudit.Pod{Ref: pod.Namespace + "/" + pod.Name, UID: pod.UID, Shown: a.shown(ctx, pod, networks)})
		}
	}
	return facts
}

// shown are the addresses in a pod's network-status. What cannot be read of it is left out: it says nothing.
func (a *auditor) shown(ctx context.Context, pod *corev1.Pod, networks auditNetworks) []ipamaudit.Shown {
	addresses, _ := podnetwork.StatusAddresses(pod.Annotations)
	all := make([]ipamaudit.Shown, 0, len(addresses))
	for i := range addresses {
		address := &addresses[i]
		network := a.network(ctx, address.Network, networks)
		managed := network.managed && a.backend.Covers(address.IP)
		all = append(all, ipamaudit.Shown{IP: address.IP, Interface: address.Interface, Managed: managed, Reserved: managed && network.reserved})
	}
	return all
}

// network says whether the IPAM gives addresses of a network and reserves them. Of one that cannot be read nothing is said.
func (a *auditor) network(ctx context.Context, name string, networks auditNetworks) auditNetwork {
	if network, ok := networks[name]; ok {
		return network
	}
	var network auditNetwork
	var definition nadv1.NetworkAttachmentDefinition
	if ref, ok := podRefOf(name); ok && a.client.Get(ctx, client.ObjectKey(ref), &definition) == nil {
		ipams, err := podnetwork.IPAMsOf([]byte(definition.Spec.Config), definition.Name)
		for _, i := range ipams {
			network.managed = network.managed || err == nil && a.backend.Manages(i)
		}
		network.reserved = network.managed && a.backend.Reserves(definition.Spec.Config)
	}
	networks[name] = network
	return network
}

// podRefOf reads "namespace/name".
func podRefOf(text string) (ipam.PodRef, bool) {
	namespace, name, ok := strings.Cut(text, "/")
	return ipam.PodRef{Namespace: namespace, Name: name}, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}
