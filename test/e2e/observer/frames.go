// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// Ethernet and protocol numbers, from the IEEE and IANA registries.
const (
	etherARP  = 0x0806
	etherIPv6 = 0x86dd

	etherHeader = 14
	arpLength   = 28
	ipv6Header  = 40

	nextICMPv6                = 58
	icmpNeighborSolicitation  = 135
	icmpNeighborAdvertisement = 136
	neighborLength            = 24
	optionTargetLinkLayer     = 2
	hopLimit                  = 255
)

// spoken reads who speaks for which address in an Ethernet frame: the sender of an ARP packet, or the target of a neighbor
// advertisement. The hardware address is the one inside the message, not the frame's.
func spoken(frame []byte) (netip.Addr, string, bool) {
	if len(frame) < etherHeader {
		return netip.Addr{}, "", false
	}
	payload := frame[etherHeader:]
	switch binary.BigEndian.Uint16(frame[12:14]) {
	case etherARP:
		return arpSender(payload)
	case etherIPv6:
		return advertised(payload, frame[6:12])
	default:
		return netip.Addr{}, "", false
	}
}

// arpSender reads an ARP packet for IPv4 over Ethernet (RFC 826). A probe has no sender's address (RFC 5227, 2.1.1).
func arpSender(packet []byte) (netip.Addr, string, bool) {
	if len(packet) < arpLength || binary.BigEndian.Uint16(packet[0:2]) != 1 || binary.BigEndian.Uint16(packet[2:4]) != 0x0800 ||
		packet[4] != 6 || packet[5] != 4 {
		return netip.Addr{}, "", false
	}
	sender := netip.AddrFrom4([4]byte(packet[14:18]))
	return sender, net.HardwareAddr(packet[8:14]).String(), !sender.IsUnspecified()
}

// advertised reads a neighbor advertisement (RFC 4861, 4.4); without the option, the frame's sender is who speaks.
func advertised(packet, source []byte) (netip.Addr, string, bool) {
	if len(packet) < ipv6Header+neighborLength || packet[6] != nextICMPv6 || packet[7] != hopLimit || packet[ipv6Header] != icmpNeighborAdvertisement {
		return netip.Addr{}, "", false
	}
	message := packet[ipv6Header:]
	target := netip.AddrFrom16([16]byte(message[8:24]))
	for options := message[neighborLength:]; len(options) >= 8; {
		length := int(options[1]) * 8
		if length == 0 || length > len(options) {
			return netip.Addr{}, "", false
		}
		if options[0] == optionTargetLinkLayer && length == 8 {
			return target, net.HardwareAddr(options[2:8]).String(), true
		}
		options = options[length:]
	}
	return target, net.HardwareAddr(source).String(), true
}

// question is the frame that asks who has an address and claims nothing for the asker: an ARP probe (RFC 5227), or the
// neighbor solicitation of duplicate address detection (RFC 4862, 5.4.2).
func question(mac net.HardwareAddr, address netip.Addr) []byte {
	if address.Is4() {
		return arpProbe(mac, address)
	}
	return solicitation(mac, address)
}

func arpProbe(mac net.HardwareAddr, address netip.Addr) []byte {
	frame := ethernet(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, etherARP)
	frame = append(frame, 0, 1, 0x08, 0x00, 6, 4, 0, 1) // Ethernet, IPv4, lengths, request
	frame = append(frame, mac...)
	frame = append(frame, 0, 0, 0, 0)
	frame = append(frame, 0, 0, 0, 0, 0, 0)
	target := address.As4()
	return append(frame, target[:]...)
}

func solicitation(mac net.HardwareAddr, address netip.Addr) []byte {
	target := address.As16()
	group := [16]byte{0xff, 0x02, 11: 0x01, 12: 0xff, 13: target[13], 14: target[14], 15: target[15]}
	frame := ethernet(net.HardwareAddr{0x33, 0x33, 0xff, target[13], target[14], target[15]}, mac, etherIPv6)
	message := make([]byte, neighborLength)
	message[0] = icmpNeighborSolicitation
	copy(message[8:], target[:])
	binary.BigEndian.PutUint16(message[2:4], checksum([16]byte{}, group, message))
	header := make([]byte, ipv6Header)
	header[0] = 6 << 4
	binary.BigEndian.PutUint16(header[4:6], neighborLength)
	header[6], header[7] = nextICMPv6, hopLimit
	copy(header[24:], group[:])
	return append(append(frame, header...), message...)
}

func ethernet(to, from net.HardwareAddr, kind uint16) []byte {
	frame := append(append(make([]byte, 0, 128), to...), from...)
	return binary.BigEndian.AppendUint16(frame, kind)
}

// checksum is ICMPv6's, over its pseudo-header (RFC 8200, 8.1).
func checksum(source, destination [16]byte, message []byte) uint16 {
	var sum uint32
	add := func(data []byte) {
		for i := 0; i+1 < len(data); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(data[i:]))
		}
	}
	add(source[:])
	add(destination[:])
	sum += uint32(len(message)) + nextICMPv6
	add(message)
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
