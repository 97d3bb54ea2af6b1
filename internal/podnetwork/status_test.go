// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestStatusAddresses(t *testing.T) {
	addr := netip.MustParseAddr
	multus := `[{"name":"pod-network","interface":"eth0","ips":["10.244.0.5"],"mac":"aa:bb:cc:dd:ee:ff","default":true,"dns":{},"gateway":["10.244.0.1"]},
	            {"name":"apps/blue","interface":"net1","ips":["192.168.2.3","fd00::3"],"mtu":1500,"dns":{}}]`
	fromMultus := []StatusAddress{
		{Network: "pod-network", Interface: "eth0", IP: addr("10.244.0.5"), Default: true},
		{Network: "apps/blue", Interface: "net1", IP: addr("192.168.2.3")},
		{Network: "apps/blue", Interface: "net1", IP: addr("fd00::3")},
	}
	cases := map[string]struct {
		value string
		want  []StatusAddress
		err   string
	}{
		"no report yet":                         {},
		"an empty report":                       {value: "[]"},
		"a report of null":                      {value: "null"},
		"as Multus writes it":                   {value: multus, want: fromMultus},
		"a network with no address":             {value: `[{"name":"apps/l2","interface":"net1"}]`},
		"an element that is null":               {value: `[null]`},
		"no interface":                          {value: `[{"name":"n","ips":["10.0.0.1"]}]`, want: []StatusAddress{{Network: "n", IP: addr("10.0.0.1")}}},
		"an address with its prefix length":     {value: `[{"name":"n","ips":["10.0.0.1/24"]}]`, want: []StatusAddress{{Network: "n", IP: addr("10.0.0.1")}}},
		"IPv4 mapped into IPv6 is IPv4":         {value: `[{"name":"n","ips":["::ffff:10.0.0.1"]}]`, want: []StatusAddress{{Network: "n", IP: addr("10.0.0.1")}}},
		"a spelling that is not the usual one":  {value: `[{"name":"n","ips":["FD00:0:0::0003"]}]`, want: []StatusAddress{{Network: "n", IP: addr("fd00::3")}}},
		"a bad address does not hide the next":  {value: `[{"name":"n","ips":["<nil>","10.0.0.1"]}]`, want: []StatusAddress{{Network: "n", IP: addr("10.0.0.1")}}, err: `element 0: "<nil>" is no IP address`},
		"an empty address":                      {value: `[{"name":"n","ips":[""]}]`, err: `"" is no IP address`},
		"an address with a zone":                {value: `[{"name":"n","ips":["fe80::1%eth0"]}]`, err: "has a zone"},
		"broken JSON":                           {value: `[{"name":"n"`, err: "cannot be read"},
		"an object in place of the list":        {value: `{"name":"n"}`, err: "cannot be read"},
		"a type error makes the report unknown": {value: `[{"name":"n","ips":["10.0.0.1"]},{"ips":"10.0.0.2"}]`, err: "cannot be read"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := StatusAddresses(map[string]string{StatusAnnotation: tc.value})
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			checkError(t, err, tc.err)
		})
	}
	if got, err := StatusAddresses(nil); got != nil || err != nil {
		t.Errorf("without annotations: got %v, %v, want nothing", got, err)
	}
}

// checkError wants no error for an empty part, else one that contains it.
func checkError(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case part == "" && err != nil:
		t.Errorf("got the error %q, want none", err)
	case part != "" && (err == nil || !strings.Contains(err.Error(), part)):
		t.Errorf("got the error %v, want one with %q", err, part)
	}
}
