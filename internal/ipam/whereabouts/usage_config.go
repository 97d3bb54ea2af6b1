// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
)

// configuredRange is one range of a network's configuration.
type configuredRange struct {
	network string
	subnet  netip.Prefix
	// start and end limit what is handed out; invalid where there is no limit.
	start, end netip.Addr
	excluded   []netip.Prefix
	// sliceBits is the prefix length of a node's slice; zero where the range is not divided.
	sliceBits int
}

// rangeSection is the part of an ipam section about its ranges. Its keys are matched without regard to case, as whereabouts does.
type rangeSection struct {
	rangeText
	Ranges    []rangeText `json:"ipRanges"`
	Network   string      `json:"network_name"`
	SliceSize string      `json:"node_slice_size"`
}

type rangeText struct {
	Range   string   `json:"range"`
	Start   string   `json:"range_start"`
	End     string   `json:"range_end"`
	Exclude []string `json:"exclude"`
}

// rangesOf are the ranges in a network's configuration. A section, or a range, that whereabouts could not read either has none: no pod gets
// an address from it.
func rangesOf(config string) []configuredRange {
	var value any
	if json.Unmarshal([]byte(config), &value) != nil {
		return nil
	}
	var found []configuredRange
	for _, raw := range ipamSections(value) {
		var own rangeSection
		text, err := json.Marshal(raw)
		if err != nil || json.Unmarshal(text, &own) != nil {
			continue
		}
		for _, r := range append([]rangeText{own.rangeText}, own.Ranges...) {
			if configured, ok := r.parse(); ok {
				configured.network = own.Network
				configured.sliceBits, _ = strconv.Atoi(strings.TrimPrefix(own.SliceSize, "/"))
				found = append(found, configured)
			}
		}
	}
	return found
}

// ipamSections are the sections of type whereabouts, wherever they stand.
func ipamSections(value any) (found []map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		if kind, err := stringAt(value, "type"); err == nil && kind == Name {
			return []map[string]any{value}
		}
		for _, inner := range value {
			found = append(found, ipamSections(inner)...)
		}
	case []any:
		for _, inner := range value {
			found = append(found, ipamSections(inner)...)
		}
	}
	return found
}

// parse reads a range as LoadIPAMConfig does (pkg/config/config.go): "network" or "start-end/bits".
func (r rangeText) parse() (configuredRange, bool) {
	parsed := configuredRange{start: limit(r.Start), end: limit(r.End)}
	text := r.Range
	if start, rest, divided := strings.Cut(text, "-"); divided {
		text, parsed.start = rest, limit(start)
		parsed.end = limit(rest)
	}
	network, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return parsed, false
	}
	parsed.subnet = network.Masked()
	for _, text := range r.Exclude {
		excluded, ok := excludedNetwork(text)
		if !ok {
			return parsed, false // whereabouts hands out nothing
		}
		parsed.excluded = append(parsed.excluded, excluded)
	}
	return parsed, true
}

// limit is an address, of which whereabouts drops a prefix length.
func limit(text string) netip.Addr {
	text, _, _ = strings.Cut(text, "/")
	address, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap()
}

// excludedNetwork is a network or a single address.
func excludedNetwork(text string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		return network.Masked(), true
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, address.BitLen()), true
}
