// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"testing"
)

var asker = net.HardwareAddr{2, 0, 0, 0, 0, 9}

// bytesOf reads hexadecimal digits in groups.
func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const (
	reply        = "020000000009 020000000001 0806 0001 0800 06 04 0002 020000000001 c0a80203 020000000009 00000000"
	probe        = "ffffffffffff 020000000009 0806 0001 0800 06 04 0001 020000000009 00000000 000000000000 c0a80203"
	advertHeader = "333300000001 020000000002 86dd 6000000000203aff fe800000000000000000000000000001 ff020000000000000000000000000001"
	advert       = advertHeader + "8800 0000 20000000 fd000000000000000000000000000003"
)

func TestSpoken(t *testing.T) {
	for name, test := range map[string]struct {
		frame, address, mac string
	}{
		"an ARP reply":                                {frame: reply, address: "192.168.2.3", mac: "02:00:00:00:00:01"},
		"an ARP probe claims nothing":                 {frame: probe},
		"an ARP packet of other hardware":             {frame: strings.Replace(reply, "0806 0001", "0806 0006", 1)},
		"an ARP packet cut short":                     {frame: reply[:60]},
		"an advertisement with the option":            {frame: advert + "0201 020000000003", address: "fd00::3", mac: "02:00:00:00:00:03"},
		"an advertisement without it":                 {frame: advert, address: "fd00::3", mac: "02:00:00:00:00:02"},
		"an advertisement with another option before": {frame: advert + "0e01 000000000000 0201 020000000003", address: "fd00::3", mac: "02:00:00:00:00:03"},
		"an advertisement with an option of no size":  {frame: advert + "0200 020000000003"},
		"an advertisement from beyond a router":       {frame: strings.Replace(advert, "3aff", "3a40", 1)},
		"another protocol":                            {frame: strings.Replace(reply, "0806", "0800", 1)},
		"no frame":                                    {frame: "02"},
	} {
		t.Run(name, func(t *testing.T) {
			address, mac, ok := spoken(bytesOf(t, test.frame))
			if !ok {
				if test.address != "" {
					t.Errorf("no claim in the frame; expected %s for %s", test.mac, test.address)
				}
				return
			}
			if address.String() != test.address || mac != test.mac {
				t.Errorf("got %s for %s, expected %q for %q", mac, address, test.mac, test.address)
			}
		})
	}
}

func TestQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		address, frame string
	}{
		"ARP": {address: "192.168.2.3", frame: probe},
		"NDP": {address: "fd00::12:3456", frame: "3333ff123456 020000000009 86dd 6000000000183aff" +
			"00000000000000000000000000000000 ff0200000000000000000001ff123456 8700 14d7 00000000 fd000000000000000000000000123456"},
	} {
		t.Run(name, func(t *testing.T) {
			got := question(asker, netip.MustParseAddr(test.address))
			want := bytesOf(t, test.frame)
			if hex.EncodeToString(got) != hex.EncodeToString(want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			if _, _, ok := spoken(got); ok {
				t.Error("the question is taken for a claim")
			}
		})
	}
}
