// SPDX-License-Identifier: Apache-2.0

package program

import "testing"

func TestMetricsAreOpenOnlyToTheHostItself(t *testing.T) {
	cases := map[string]struct {
		address string
		secure  bool
	}{
		"every address":          {":8443", true},
		"every IPv4 address":     {"0.0.0.0:8443", true},
		"an address of the host": {"10.0.0.1:8443", true},
		"IPv4 loopback":          {"127.0.0.1:8080", false},
		"IPv6 loopback":          {"[::1]:8080", false},
		"localhost":              {"localhost:8080", false},
		"nothing":                {"0", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Metrics(tc.address, "/certs")
			if got.BindAddress != tc.address || got.SecureServing != tc.secure || (got.FilterProvider != nil) != tc.secure {
				t.Errorf("got address %q, secure %t, authorized %t", got.BindAddress, got.SecureServing, got.FilterProvider != nil)
			}
		})
	}
}
