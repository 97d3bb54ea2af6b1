// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"encoding/json"
	"maps"
)

// Tenants write annotations, and authors of definitions write configurations. What exceeds a bound is malformed: it is refused before
// it is parsed, and decisions treat it as an unknown network.
const (
	// MaxNetworksBytes and MaxElements bound an annotation that names networks. A pod with 64 interfaces needs some 10 KiB.
	MaxNetworksBytes = 16 << 10
	MaxElements      = 64
	// MaxStatusBytes and MaxStatusAddresses bound a network-status. Multus writes some 500 bytes for an interface.
	MaxStatusBytes     = 64 << 10
	MaxStatusAddresses = 4 * MaxElements
	// MaxConfigBytes and MaxIPAMs bound the configuration in a NetworkAttachmentDefinition; long lists of excluded addresses fit.
	MaxConfigBytes = 64 << 10
	MaxIPAMs       = 64
	// MaxDefinitions bounds how many definitions are read for one pod.
	MaxDefinitions = 32
)

// smallStatus is a network-status that is kept as it is: that of an ordinary pod has some hundred bytes.
const smallStatus = 2 << 10

// Bounded is a copy of a pod's annotations that means the same to this package and has at most some 60 KiB: what exceeds its bound, or
// is large and cannot be read, is malformed in the copy too, and of a large network-status only the addresses stay.
func Bounded(annotations map[string]string) map[string]string {
	bounded := maps.Clone(annotations)
	for key, value := range bounded {
		switch {
		case key == StatusAnnotation:
			bounded[key] = boundedStatus(value)
		case len(value) > MaxNetworksBytes:
			bounded[key] = TooLarge
		}
	}
	return bounded
}

func boundedStatus(value string) string {
	if len(value) <= smallStatus {
		return value
	}
	addresses, err := StatusAddresses(map[string]string{StatusAnnotation: value})
	if err != nil {
		return TooLarge
	}
	statuses := make([]statusElement, 0, len(addresses))
	for i := range addresses {
		a := &addresses[i]
		if last := len(statuses) - 1; last >= 0 && statuses[last].isOf(a) {
			statuses[last].IPs = append(statuses[last].IPs, a.IP.String())
			continue
		}
		statuses = append(statuses, statusElement{Name: a.Network, Interface: a.Interface, IPs: []string{a.IP.String()}, Default: a.Default})
	}
	text, err := json.Marshal(statuses)
	if err != nil || len(text) > MaxStatusBytes/2 {
		return TooLarge
	}
	return string(text)
}

// statusElement is what StatusAddresses reads of a nadv1.NetworkStatus.
type statusElement struct {
	Name      string   `json:"name"`
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips"`
	Default   bool     `json:"default,omitempty"`
}

func (e *statusElement) isOf(a *StatusAddress) bool {
	return e.Name == a.Network && e.Interface == a.Interface && e.Default == a.Default
}
