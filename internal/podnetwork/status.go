// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusAddress is one address that the network-status annotation of a pod shows.
type StatusAddress struct {
	// Network is the name as reported: "namespace/name" of a NetworkAttachmentDefinition, or the name of the cluster's own
	// network as its CNI configuration gives it.
	Network string
	// Interface is the interface in the pod, such as "net1"; empty where the report names none.
	Interface string
	// IP is the address, never an IPv4 address mapped into IPv6.
	IP netip.Addr
	// Default is true on the pod's default network.
	Default bool
}

// StatusAddresses reads from a pod's annotations the addresses that it was given, in the order of the report. An absent or
// empty annotation is no address and no error: no plugin has reported yet, which does not show what the pod holds.
//
// An error says that the report, or an address in it, cannot be read. The addresses that could be read are returned with
// it; what is missing from them is unknown, not absent.
func StatusAddresses(annotations map[string]string) ([]StatusAddress, error) {
	value := annotations[StatusAnnotation]
	if value == "" {
		return nil, nil
	}
	if len(value) > MaxStatusBytes {
		return nil, fmt.Errorf("annotation %s has %d bytes, expected at most %d", StatusAnnotation, len(value), MaxStatusBytes)
	}
	statuses, err := nadutils.GetNetworkStatus(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{StatusAnnotation: value},
	}})
	if err != nil {
		return nil, fmt.Errorf("annotation %s cannot be read, expected a JSON list of network statuses: %w", StatusAnnotation, err)
	}
	if n := countAddresses(statuses); n > MaxStatusAddresses {
		return nil, fmt.Errorf("annotation %s has %d networks and addresses, expected at most %d", StatusAnnotation, n, MaxStatusAddresses)
	}
	var addresses []StatusAddress
	var errs []error
	for i, status := range statuses {
		for _, ip := range status.IPs {
			addr, err := parseAddress(ip)
			if err != nil {
				errs = append(errs, fmt.Errorf("annotation %s, element %d: %w", StatusAnnotation, i, err))
				continue
			}
			addresses = append(addresses, StatusAddress{
				Network: status.Name, Interface: status.Interface, IP: addr, Default: status.Default,
			})
		}
	}
	return addresses, errors.Join(errs...)
}

func countAddresses(statuses []nadv1.NetworkStatus) int {
	n := 0
	for i := range statuses {
		n += max(1, len(statuses[i].IPs))
	}
	return n
}

// parseAddress reads an address, alone as Multus writes it or with a prefix length as CNI results do.
func parseAddress(s string) (netip.Addr, error) {
	bare := s
	if prefix, err := netip.ParsePrefix(s); err == nil {
		bare = prefix.Addr().String()
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(bare))
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is no IP address", s)
	case addr.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%q has a zone, expected an address that means the same on every machine", s)
	}
	return addr.Unmap(), nil
}
