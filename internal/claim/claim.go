// SPDX-License-Identifier: Apache-2.0

// Package claim bounds the addresses that pods claim by their annotations: an annotation claims no more than an IPAM can have
// given (docs/decisions/0106).
package claim

import (
	"context"
	"fmt"
	"net/netip"
	"path"
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
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Network is what an IPAM does for a network.
type Network struct {
	// Managed: the IPAM gives addresses of the network. Reserved: it makes a reservation of each.
	Managed, Reserved bool
	// Ranges are those that the network's configuration names.
	Ranges []netip.Prefix
	// Divided names the object that divides the network's range among nodes.
	Divided string
}

// Networks are the networks that one pass looks at. Each definition is read once. It is not safe for concurrent use.
type Networks struct {
	backend    ipam.Auditable
	rules      protection.Rules
	reader     client.Reader
	definition func(context.Context, ipam.PodRef) (*nadv1.NetworkAttachmentDefinition, error)
	byName     map[string]Network
	failed     error
}

// From reads definitions, and records, with a reader.
func From(reader client.Reader, backend ipam.Auditable, rules protection.Rules) *Networks {
	n := Of(backend, func(ctx context.Context, ref ipam.PodRef) (*nadv1.NetworkAttachmentDefinition, error) {
		var definition nadv1.NetworkAttachmentDefinition
		if err := reader.Get(ctx, client.ObjectKey(ref), &definition); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading NetworkAttachmentDefinition %s: %w", ref, err)
		}
		return &definition, nil
	})
	n.reader, n.rules = reader, rules
	return n
}

// Of reads definitions with a function, which gives nil for one that does not exist.
func Of(backend ipam.Auditable, definition func(context.Context, ipam.PodRef) (*nadv1.NetworkAttachmentDefinition, error)) *Networks {
	return &Networks{backend: backend, definition: definition, byName: map[string]Network{}}
}

// Err is the last read that failed. Nothing is known of its network; what is read for a removal needs to know that.
func (n *Networks) Err() error { return n.failed }

// Named is the network of a name ("namespace/name"). It is empty for one that does not exist or cannot be read.
func (n *Networks) Named(ctx context.Context, name string) Network {
	ref, ok := ipam.ParsePodRef(name)
	network, known := n.byName[name]
	if known || !ok {
		return network
	}
	definition, err := n.definition(ctx, ref)
	if err != nil {
		n.failed = err
		return network
	}
	if definition != nil {
		network = n.read(definition)
	}
	n.byName[name] = network
	return network
}

func (n *Networks) read(definition *nadv1.NetworkAttachmentDefinition) (network Network) {
	ipams, err := podnetwork.IPAMsOf(definition.Spec.Config)
	if network.Managed = err == nil && slices.ContainsFunc(ipams, n.backend.Manages); network.Managed {
		network.Reserved = n.backend.Reserves(definition.Spec.Config)
		network.Ranges = n.backend.Ranges(definition.Spec.Config)
		network.Divided = n.backend.SlicePool(definition.Spec.Config, definition.Name)
	}
	return network
}

// Shown are the addresses in a pod's network-status. What cannot be read of it is left out.
func (n *Networks) Shown(ctx context.Context, pod *corev1.Pod) []ipamaudit.Shown {
	addresses, _ := podnetwork.StatusAddresses(pod.Annotations)
	all := make([]ipamaudit.Shown, 0, len(addresses))
	for i := range addresses {
		address := &addresses[i]
		network := n.Named(ctx, address.Network)
		managed := network.Managed && n.backend.Covers(address.IP)
		all = append(all, ipamaudit.Shown{IP: address.IP, Interface: address.Interface, Network: address.Network,
			Managed: managed, Reserved: managed && network.Reserved, Outside: !ipamaudit.Within(network.Ranges, address.IP)})
	}
	return all
}

// Allowed is how many addresses a pod can have of each managed network that it requests: interfaces times ranges. A malformed
// annotation requests nothing.
func (n *Networks) Allowed(ctx context.Context, pod *corev1.Pod) map[string]int {
	attachments, malformed := podnetwork.Attachments(pod.Annotations, pod.Namespace, n.rules.MultusNamespace)
	if len(malformed) > 0 {
		return nil
	}
	allowed := map[string]int{}
	for _, attachment := range attachments {
		if network := n.Named(ctx, attachment.String()); network.Managed {
			allowed[attachment.String()] += max(1, len(network.Ranges))
		}
	}
	return allowed
}

// Divided are the objects that divide the networks which a pod requests.
func (n *Networks) Divided(ctx context.Context, pod *corev1.Pod) (names []string) {
	attachments, _ := podnetwork.Attachments(pod.Annotations, pod.Namespace, n.rules.MultusNamespace)
	for _, attachment := range attachments {
		if name := n.Named(ctx, attachment.String()).Divided; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Recorded are the addresses of a record.
func Recorded(record *v1alpha1.IPAllocation) (addresses []netip.Addr) {
	for i := range record.Spec.Addresses {
		if ip, err := netip.ParseAddr(record.Spec.Addresses[i].IP); err == nil {
			addresses = append(addresses, ip)
		}
	}
	return addresses
}

// Claims reports whether a pod's network-status counts for one of the addresses: its record has it, or the pod is one that the webhooks
// would have protected and shows no more than it can have been given. What it cannot have been given holds nothing.
func (n *Networks) Claims(ctx context.Context, pod *corev1.Pod, addresses []netip.Addr) (bool, error) {
	var record v1alpha1.IPAllocation
	err := n.reader.Get(ctx, types.NamespacedName{Name: string(pod.UID)}, &record)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the record of pod %s/%s, which shows an address: %w", pod.Namespace, pod.Name, err)
	}
	claimant := ipamaudit.Pod{Recorded: Recorded(&record)}
	if slices.ContainsFunc(claimant.Recorded, func(ip netip.Addr) bool { return slices.Contains(addresses, ip) }) {
		return true, nil
	}
	if !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) && !slices.Contains(n.rules.ExcludedNamespaces, pod.Namespace) {
		return false, nil
	}
	var shown []ipamaudit.Shown
	for _, s := range n.Shown(ctx, pod) {
		if s.Managed {
			shown = append(shown, s)
		}
	}
	claimant.Allowed = n.Allowed(ctx, pod)
	if n.failed != nil {
		return false, n.failed
	}
	return slices.ContainsFunc(claimant.Claimed(shown, 0), func(s ipamaudit.Shown) bool { return slices.Contains(addresses, s.IP) }), nil
}

// ReservationName is the name under which a network ("namespace/name" of its definition, as it is now) reserves an address; absent where
// it makes no reservations.
func (n *Networks) ReservationName(ctx context.Context, network string, at ipam.Attachment) release.Fact[string] {
	ref, ok := ipam.ParsePodRef(network)
	if !ok {
		return release.Unknown[string](fmt.Sprintf("the network is called %q, expected \"namespace/name\" of a NetworkAttachmentDefinition", network))
	}
	definition, err := n.definition(ctx, ref)
	switch {
	case err != nil:
		n.failed = err
		return release.Unknown[string](err.Error())
	case definition == nil:
		return release.Unknown[string]("there is no NetworkAttachmentDefinition " + network)
	case len(definition.Spec.Config) > podnetwork.MaxConfigBytes:
		return release.Unknown[string](fmt.Sprintf("NetworkAttachmentDefinition %s: %v", network, podnetwork.ErrTooLarge))
	}
	at.Config, at.Definition = definition.Spec.Config, definition.Name
	name, err := n.backend.ReservationName(at)
	switch {
	case err != nil:
		return release.Unknown[string](err.Error())
	case name == "":
		return release.Absent[string]()
	}
	return release.Known(name)
}

// UsesElsewhere reports whether a pod shows an entry's address only as that of other networks. Each interface that shows it must have it on
// record in a pool of the network that the status names, and that network's name must be none that the entry's network may have.
func (n *Networks) UsesElsewhere(ctx context.Context, pod *corev1.Pod, e *ipam.Entry) bool {
	shown, err := podnetwork.StatusAddresses(pod.Annotations)
	names := n.backend.ReservationNames(e)
	var record v1alpha1.IPAllocation
	if err != nil || len(names) == 0 || n.reader.Get(ctx, types.NamespacedName{Name: string(pod.UID)}, &record) != nil {
		return false
	}
	return !slices.ContainsFunc(shown, func(s podnetwork.StatusAddress) bool {
		return s.IP == e.IP && !slices.ContainsFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
			if a.Backend != e.Backend || a.IP != s.IP.String() || a.Interface != s.Interface {
				return false
			}
			name := n.ReservationName(ctx, s.Network, ipam.Attachment{Node: pod.Spec.NodeName, IP: s.IP, Pool: a.Pool})
			// The namespace of a pool does not show which network it is of.
			return name.IsKnown() && !slices.ContainsFunc(names, func(candidate string) bool { return path.Base(candidate) == path.Base(name.Get()) })
		})
	})
}
