// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// claimReader reads what bounds the addresses that pods claim by their annotations (docs/decisions/0106).
type claimReader struct {
	*core
	backend ipam.Auditable
}

// auditNetwork is what an audit needs of a network.
type auditNetwork struct {
	managed, reserved bool
	// ranges are those that the network's configuration names.
	ranges []netip.Prefix
	// divided names the object that divides the network's range among nodes.
	divided string
}

// auditNetworks are the networks that one audit has looked at, by "namespace/name", and how it reads them.
type auditNetworks struct {
	reader client.Reader
	byName map[string]auditNetwork
	// failed is the last read that failed. What is read for a removal needs it: an unread network is no foreign one.
	failed *error
}

func networksFrom(reader client.Reader) auditNetworks {
	return auditNetworks{reader: reader, byName: map[string]auditNetwork{}, failed: new(error)}
}

// allowed is how many addresses a pod can have of each managed network that it requests: interfaces times ranges. A malformed
// annotation requests nothing.
func (c claimReader) allowed(ctx context.Context, pod *corev1.Pod, networks auditNetworks) map[string]int {
	attachments, malformed := podnetwork.Attachments(pod.Annotations, pod.Namespace, c.options.Rules.MultusNamespace)
	if len(malformed) > 0 {
		return nil
	}
	allowed := map[string]int{}
	for _, attachment := range attachments {
		if network := c.network(ctx, attachment.String(), networks); network.managed {
			allowed[attachment.String()] += max(1, len(network.ranges))
		}
	}
	return allowed
}

func recordedAddresses(record *v1alpha1.IPAllocation) (addresses []netip.Addr) {
	for i := range record.Spec.Addresses {
		if ip, err := netip.ParseAddr(record.Spec.Addresses[i].IP); err == nil {
			addresses = append(addresses, ip)
		}
	}
	return addresses
}

// shown are the addresses in a pod's network-status. What cannot be read of it is left out: it says nothing.
func (c claimReader) shown(ctx context.Context, pod *corev1.Pod, networks auditNetworks) []ipamaudit.Shown {
	addresses, _ := podnetwork.StatusAddresses(pod.Annotations)
	all := make([]ipamaudit.Shown, 0, len(addresses))
	for i := range addresses {
		address := &addresses[i]
		network := c.network(ctx, address.Network, networks)
		managed := network.managed && c.backend.Covers(address.IP)
		all = append(all, ipamaudit.Shown{IP: address.IP, Interface: address.Interface, Network: address.Network,
			Managed: managed, Reserved: managed && network.reserved, Outside: !ipamaudit.Within(network.ranges, address.IP)})
	}
	return all
}

// network says whether the IPAM gives addresses of a network and reserves them. Of one that cannot be read nothing is said.
func (c claimReader) network(ctx context.Context, name string, networks auditNetworks) auditNetwork {
	if network, ok := networks.byName[name]; ok {
		return network
	}
	var network auditNetwork
	var definition nadv1.NetworkAttachmentDefinition
	ref, ok := ipam.ParsePodRef(name)
	if !ok {
		return network
	}
	switch err := networks.reader.Get(ctx, client.ObjectKey(ref), &definition); {
	case apierrors.IsNotFound(err):
	case err != nil:
		*networks.failed = fmt.Errorf("reading NetworkAttachmentDefinition %s: %w", name, err)
		return network
	default:
		network = c.auditNetwork(&definition)
	}
	networks.byName[name] = network
	return network
}

func (c claimReader) auditNetwork(definition *nadv1.NetworkAttachmentDefinition) (network auditNetwork) {
	ipams, err := podnetwork.IPAMsOf(definition.Spec.Config)
	if network.managed = err == nil && slices.ContainsFunc(ipams, c.backend.Manages); network.managed {
		network.reserved = c.backend.Reserves(definition.Spec.Config)
		network.ranges = c.backend.Ranges(definition.Spec.Config)
		network.divided = c.backend.SlicePool(definition.Spec.Config, definition.Name)
	}
	return network
}

// claims says whether a pod's network-status counts for one of the addresses: its record has it, or the pod is one that the webhooks
// would have protected and shows no more than it can have been given. What it cannot have been given holds nothing.
func (c claimReader) claims(ctx context.Context, pod *corev1.Pod, addresses []netip.Addr, networks auditNetworks) (bool, error) {
	var record v1alpha1.IPAllocation
	err := c.live.Get(ctx, types.NamespacedName{Name: string(pod.UID)}, &record)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the record of pod %s/%s, which shows an address: %w", pod.Namespace, pod.Name, err)
	}
	claimant := ipamaudit.Pod{Recorded: recordedAddresses(&record)}
	if slices.ContainsFunc(claimant.Recorded, func(ip netip.Addr) bool { return slices.Contains(addresses, ip) }) {
		return true, nil
	}
	if !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) && !slices.Contains(c.options.Rules.ExcludedNamespaces, pod.Namespace) {
		return false, nil
	}
	var shown []ipamaudit.Shown
	for _, s := range c.shown(ctx, pod, networks) {
		if s.Managed {
			shown = append(shown, s)
		}
	}
	claimant.Allowed = c.allowed(ctx, pod, networks)
	if *networks.failed != nil {
		return false, *networks.failed
	}
	return slices.ContainsFunc(claimant.Claimed(shown, 0), func(s ipamaudit.Shown) bool { return slices.Contains(addresses, s.IP) }), nil
}
