// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func TestDecodePool(t *testing.T) {
	pool, err := New(Options{}).DecodePool([]byte(`{"metadata":{"namespace":"kube-system","name":"10.0.0.0-24"},"spec":{"range":"10.0.0.0/24",
		"allocations":{"5":{"id":"sandbox","podref":"default/web-0","ifname":"net1"},"300":{"id":"far","podref":"default/web-1"},
		"x":{},"05":{},"-1":{},"":{},"9223372036854775808":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if pool.Name != "kube-system/10.0.0.0-24" {
		t.Errorf("name %q", pool.Name)
	}
	want := map[string]ipam.AdmittedEntry{
		"5":   {SandboxID: "sandbox", PodRef: "default/web-0", Interface: "net1", IP: netip.MustParseAddr("10.0.0.5")},
		"300": {SandboxID: "far", PodRef: "default/web-1"},
		"x":   {}, "05": {}, "-1": {}, "": {}, "9223372036854775808": {},
	}
	if diff := cmp.Diff(want, pool.Entries, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if pool.RangeErr != nil || pool.Range != netip.MustParsePrefix("10.0.0.0/24") {
		t.Errorf("range %s, %v", pool.Range, pool.RangeErr)
	}
}

func TestDecodePoolWithoutAReadableRangeKeepsItsEntries(t *testing.T) {
	for name, network := range map[string]string{"empty": ``, "no CIDR": `10.0.0.0`, "not its network address": `10.0.0.7/24`} {
		t.Run(name, func(t *testing.T) {
			pool, err := New(Options{}).DecodePool([]byte(`{"spec":{"range":"` + network + `","allocations":{"5":{"id":"s","podref":"default/web-0"}}}}`))
			if err != nil {
				t.Fatal(err)
			}
			if pool.RangeErr == nil || len(pool.Entries) != 1 || pool.Entries["5"].IP.IsValid() {
				t.Errorf("range error %v, entries %v", pool.RangeErr, pool.Entries)
			}
		})
	}
}

func TestDecodeRefusesOtherShapes(t *testing.T) {
	for name, raw := range map[string]string{"nothing": ``, "a list": `[]`, "a list for spec": `{"spec":[]}`, "cut off": `{"spec":`} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(Options{}).DecodePool([]byte(raw)); err == nil {
				t.Error("read as a pool")
			}
			if _, err := New(Options{}).DecodeReservation([]byte(raw)); err == nil {
				t.Error("read as a reservation")
			}
		})
	}
}

func TestDecodeReservation(t *testing.T) {
	got, err := New(Options{}).DecodeReservation([]byte(`{"metadata":{"namespace":"kube-system","name":"blue-10.0.0.5"},"spec":{"podref":"default/web-0","ifname":"net1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (ipam.Reservation{Name: "kube-system/blue-10.0.0.5", PodRef: "default/web-0", Interface: "net1"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
