// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodePool(t *testing.T) {
	pool, err := DecodePool([]byte(`{"metadata":{"namespace":"kube-system","name":"10.0.0.0-24"},"spec":{"range":"10.0.0.0/24",
		"allocations":{"5":{"id":"sandbox","podref":"default/web-0","ifname":"net1"},"300":{"id":"far","podref":"default/web-1"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if pool.Name != "kube-system/10.0.0.0-24" {
		t.Errorf("name %q", pool.Name)
	}
	want := map[string]AdmittedEntry{
		"5":   {SandboxID: "sandbox", PodRef: "default/web-0", Interface: "net1"},
		"300": {SandboxID: "far", PodRef: "default/web-1"},
	}
	if diff := cmp.Diff(want, pool.Entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if network, err := pool.Range(); err != nil || network != netip.MustParsePrefix("10.0.0.0/24") {
		t.Errorf("range %s, %v", network, err)
	}
	if address, ok := pool.Address("5"); !ok || address != netip.MustParseAddr("10.0.0.5") {
		t.Errorf("address %s, %v", address, ok)
	}
	for _, offset := range []string{"300", "x", "05", "-1", "", "9223372036854775808"} {
		if address, ok := pool.Address(offset); ok {
			t.Errorf("offset %q stands for %s", offset, address)
		}
	}
}

func TestDecodePoolWithoutAReadableRangeKeepsItsEntries(t *testing.T) {
	for name, network := range map[string]string{"empty": ``, "no CIDR": `10.0.0.0`, "not its network address": `10.0.0.7/24`} {
		t.Run(name, func(t *testing.T) {
			pool, err := DecodePool([]byte(`{"spec":{"range":"` + network + `","allocations":{"5":{"id":"s","podref":"default/web-0"}}}}`))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Range(); err == nil || len(pool.Entries) != 1 {
				t.Errorf("range error %v, %d entries", err, len(pool.Entries))
			}
		})
	}
}

func TestDecodeRefusesOtherShapes(t *testing.T) {
	for name, raw := range map[string]string{"nothing": ``, "a list": `[]`, "a list for spec": `{"spec":[]}`, "cut off": `{"spec":`} {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodePool([]byte(raw)); err == nil {
				t.Error("read as a pool")
			}
			if _, err := DecodeReservation([]byte(raw)); err == nil {
				t.Error("read as a reservation")
			}
		})
	}
}

func TestDecodeReservation(t *testing.T) {
	got, err := DecodeReservation([]byte(`{"metadata":{"namespace":"kube-system","name":"blue-10.0.0.5"},"spec":{"podref":"default/web-0","ifname":"net1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Reservation{Namespace: "kube-system", Name: "blue-10.0.0.5", PodRef: "default/web-0", Interface: "net1"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
