// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"math/big"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// number is the plain model: an address as an unbounded integer.
func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// modelOffset is the distance from the range's start; nil when the address is outside or whereabouts cannot record it.
func modelOffset(network netip.Prefix, a netip.Addr) *big.Int {
	if a.Is4() != network.Addr().Is4() {
		return nil
	}
	offset := new(big.Int).Sub(number(a), number(network.Addr()))
	size := new(big.Int).Lsh(big.NewInt(1), uint(network.Addr().BitLen()-network.Bits()))
	limit := new(big.Int).Lsh(big.NewInt(1), 63)
	if offset.Sign() < 0 || offset.Cmp(size) >= 0 || offset.Cmp(limit) >= 0 {
		return nil
	}
	return offset
}

func randomAddress(r *rand.Rand, is4 bool) netip.Addr {
	b := make([]byte, 16)
	for i := range b {
		b[i] = [...]byte{0, 0xff, byte(r.Uint32())}[r.IntN(3)] // carries and edges are where mistakes are
	}
	if is4 {
		b = b[:4]
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestOffsetsAgreeWithTheModel(t *testing.T) {
	const rounds = 40_000
	r := rand.New(rand.NewPCG(1, 2))
	inside := 0
	for range rounds {
		is4 := r.IntN(2) == 0
		base := randomAddress(r, is4)
		network := netip.PrefixFrom(base, r.IntN(base.BitLen()+1)).Masked()
		if network.Addr().Is4In6() {
			continue
		}
		address := randomAddress(r, is4)
		if r.IntN(2) == 0 { // near the start
			address, _ = addressAt(network, r.Uint64()>>r.IntN(64))
			if !address.IsValid() {
				continue
			}
		}
		want := modelOffset(network, address)
		got, err := offsetOf(network, address)
		if (want == nil) != (err != nil) || want != nil && want.Cmp(new(big.Int).SetUint64(got)) != 0 {
			t.Fatalf("offset of %s in %s: got %d, %v; the model says %v", address, network, got, err, want)
		}
		if want == nil {
			continue
		}
		inside++
		if back, err := addressAt(network, got); err != nil || back != address {
			t.Fatalf("address at %d of %s: got %s, %v; want %s", got, network, back, err, address)
		}
	}
	if inside < rounds/4 {
		t.Errorf("only %d of %d rounds were about an address that can be recorded", inside, rounds)
	}
}

func TestAddressAtAgreesWithTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 40_000 {
		base := randomAddress(r, r.IntN(2) == 0)
		network := netip.PrefixFrom(base, r.IntN(base.BitLen()+1)).Masked()
		if network.Addr().Is4In6() {
			continue
		}
		offset := r.Uint64() >> r.IntN(64)
		size := new(big.Int).Lsh(big.NewInt(1), uint(network.Addr().BitLen()-network.Bits()))
		inRange := new(big.Int).SetUint64(offset).Cmp(size) < 0
		got, err := addressAt(network, offset)
		if inRange != (err == nil) {
			t.Fatalf("address at %d of %s: got %s, %v; the model says in range: %t", offset, network, got, err, inRange)
		}
		if !inRange {
			continue
		}
		if want := new(big.Int).Add(number(network.Addr()), new(big.Int).SetUint64(offset)); number(got).Cmp(want) != 0 {
			t.Fatalf("address at %d of %s: got %s", offset, network, got)
		}
	}
}

func TestKnownAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		network, address string
		offset           uint64
	}{
		"the network address is offset 0":                {"192.168.2.0/29", "192.168.2.0", 0},
		"the first usable address is offset 1":           {"192.168.2.0/29", "192.168.2.1", 1},
		"IPv4 carries into the third byte":               {"10.0.0.0/16", "10.0.1.4", 260},
		"IPv6":                                           {"fd00:1::/64", "fd00:1::1:0", 65536},
		"the largest offset that whereabouts reads back": {"fd00::/64", "fd00::7fff:ffff:ffff:ffff", 1<<63 - 1},
		"a slice of a node starts at its own start":      {"10.0.0.64/28", "10.0.0.65", 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := offsetOf(netip.MustParsePrefix(tc.network), netip.MustParseAddr(tc.address))
			if err != nil || got != tc.offset {
				t.Errorf("offset: got %d, %v; want %d", got, err, tc.offset)
			}
		})
	}
}

func TestOffsetsThatAreNeverWritten(t *testing.T) {
	for name, tc := range map[string]struct{ network, address, message string }{
		"2^63":                     {"fd00::/64", "fd00::8000:0:0:0", "2^63 or more"},
		"2^64 and 1":               {"fd00::/32", "fd00:0:0:1::1", "2^63 or more"},
		"outside of the range":     {"10.0.0.0/24", "10.0.1.0", "outside of the range"},
		"another family":           {"10.0.0.0/8", "fd00::1", "outside of the range"},
		"an IPv4-mapped address":   {"10.0.0.0/24", "::ffff:10.0.0.1", "outside of the range"},
		"before the range's start": {"10.0.0.64/28", "10.0.0.63", "outside of the range"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := offsetOf(netip.MustParsePrefix(tc.network), netip.MustParseAddr(tc.address))
			if err == nil || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got error %v; want one with %q", err, tc.message)
			}
		})
	}
}

func TestRanges(t *testing.T) {
	for name, tc := range map[string]struct{ text, message string }{
		"IPv4":                    {text: "10.0.0.0/24"},
		"IPv6":                    {text: "fd00::/64"},
		"one address":             {text: "10.0.0.1/32"},
		"empty":                   {"", "expected a network in CIDR notation"},
		"no prefix length":        {"10.0.0.0", "expected a network in CIDR notation"},
		"no network":              {"ten.zero/24", "expected a network in CIDR notation"},
		"a prefix too long":       {"10.0.0.0/33", "expected a network in CIDR notation"},
		"a range of addresses":    {"10.0.0.1-10.0.0.9/24", "expected a network in CIDR notation"},
		"with a zone":             {"fe80::%eth0/64", "expected a network in CIDR notation"},
		"not the network address": {"10.0.0.5/24", "10.0.0.0/24"},
		"IPv4-mapped":             {"::ffff:10.0.0.0/120", "IPv4-mapped"},
	} {
		t.Run(name, func(t *testing.T) { checkMessage(t, errorOf(parseRange(tc.text)), tc.message) })
	}
}

func TestOffsetTexts(t *testing.T) {
	for name, tc := range map[string]struct{ text, message string }{
		"zero":                       {text: "0"},
		"the largest":                {text: "9223372036854775807"},
		"2^63":                       {"9223372036854775808", "2^63 or more"},
		"2^64 - 1":                   {"18446744073709551615", "2^63 or more"},
		"2^64":                       {"18446744073709551616", "is no number"},
		"negative":                   {"-1", "is no number"},
		"a word":                     {"first", "is no number"},
		"empty":                      {"", "is no number"},
		"hexadecimal":                {"0x10", "is no number"},
		"a sign that Go would read":  {"+5", "is no number"},
		"a zero that Go would read":  {"05", "not in the form that whereabouts writes"},
		"a space":                    {" 5", "is no number"},
		"an address":                 {"10.0.0.1", "is no number"},
		"digits of another alphabet": {"٥", "is no number"},
	} {
		t.Run(name, func(t *testing.T) { checkMessage(t, errorOf(parseOffset(tc.text)), tc.message) })
	}
}

func errorOf[T any](_ T, err error) error { return err }

// checkMessage wants an error with the message, or none when it is empty.
func checkMessage(t *testing.T, err error, message string) {
	t.Helper()
	if message == "" && err != nil {
		t.Errorf("got error %v; want none", err)
	}
	if message != "" && (err == nil || !strings.Contains(err.Error(), message)) {
		t.Errorf("got error %v; want one with %q", err, message)
	}
}
