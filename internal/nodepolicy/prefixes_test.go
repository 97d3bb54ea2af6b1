// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

func TestPrefixes(t *testing.T) {
	const assignments = "self.status.networkContainers.map(c, has(c.ipAssignments), c.ipAssignments.map(a, a.ip))"
	for name, tc := range map[string]struct {
		edits    []edit
		manifest string
		want     []string
		// parts of the error; none if there is no error.
		parts []string
	}{
		"primary addresses, plain and CIDR": {
			of(holding("self.status.networkContainers.map(c, c.primaryIP)")), nodeNetworkConfig, []string{"10.225.0.9/32", "10.244.2.0/24"}, nil},
		"nested lists":           {of(holding(assignments)), nodeNetworkConfig, []string{"10.225.0.10/32", "10.225.0.11/32"}, nil},
		"the keys of a pool":     {of(holding("self.spec.ipam.pool.map(k, k)")), ciliumNode, []string{"10.0.1.41/32", "10.0.1.42/32"}, nil},
		"CIDRs of both families": {of(holding("self.spec.ipam.podCIDRs")), ciliumNode, []string{"10.1.0.0/24", "fd00:1::/64"}, nil},
		"several expressions": {
			of(holding("self.spec.ipam.podCIDRs", "self.spec.ipam.pool.map(k, k)")), ciliumNode,
			[]string{"10.0.1.41/32", "10.0.1.42/32", "10.1.0.0/24", "fd00:1::/64"}, nil},
		"one string in a list":               {of(holding("[self.subnet]")), hostSubnet, []string{"10.128.0.0/23"}, nil},
		"no expression":                      {nil, ciliumNode, nil, nil},
		"a field that is not there":          {of(holding("self.status.ips")), "spec: {}", nil, nil},
		"a field below one that is there":    {of(holding("self.status.ips.map(i, i.ip)")), "status: {}", nil, nil},
		"an index that is not there":         {of(holding(`self["status"]["ips"]`)), "status: {}", nil, nil},
		"one field of two is not there":      {of(holding("self.a", "self.b")), "b: [10.0.0.1]", []string{"10.0.0.1/32"}, nil},
		"an object without addresses":        {of(holding("self.a")), "a: []", nil, nil},
		"a list that is null":                {of(holding("self.a")), "a: null", nil, nil},
		"empty and null elements":            {of(holding("self.a")), `a: ["", null, 10.0.0.1]`, []string{"10.0.0.1/32"}, nil},
		"duplicates in every way to write":   {of(holding("self.a")), `a: [10.0.0.1, 10.0.0.1/32, "::ffff:10.0.0.1", "::ffff:10.0.0.1/128"]`, []string{"10.0.0.1/32"}, nil},
		"host bits are cleared":              {of(holding("self.a")), `a: [10.0.0.9/24, 10.0.0.1/24]`, []string{"10.0.0.0/24"}, nil},
		"a short prefix of mapped addresses": {of(holding("self.a")), `a: ["::ffff:0.0.0.0/90"]`, []string{"::ffc0:0:0/90"}, nil},
		"garbage beside addresses": {
			of(holding("self.a")), "a: [x, 10.0.0.1, 10.0.0.300]", []string{"10.0.0.1/32"}, []string{"spec.addresses[0]", `"x"`, `"10.0.0.300"`}},
		"a zone":                          {of(holding("self.a")), `a: ["fe80::1%eth0"]`, nil, []string{"zone"}},
		"a prefix that is too long":       {of(holding("self.a")), "a: [10.0.0.0/33]", nil, []string{"10.0.0.0/33"}},
		"a number":                        {of(holding("self.a")), "a: [1, 10.0.0.1]", []string{"10.0.0.1/32"}, []string{"double", "list(string)"}},
		"a string instead of a list":      {of(holding("self.a")), "a: 10.0.0.1", nil, []string{"string", "list(string)"}},
		"an object instead of a list":     {of(holding("self.a")), "a: {b: c}", nil, []string{"map", "list(string)"}},
		"a list that is a string":         {of(holding("self.a.map(x, x)")), "a: b", nil, []string{"self.a.map(x, x)"}},
		"a field that an element lacks":   {of(holding("self.a.map(x, x.ip)")), "a: [{ip: 10.0.0.1}, {}]", nil, []string{`"ip"`, "element", "map(x, has(x.ip), x.ip)"}},
		"a key that only another map has": {of(holding("self.a.map(x, x.b)", "self.b")), "a: [{}]", nil, []string{"spec.addresses[0]", "element"}},
		"a field that is not there, but not the one that fails": {of(holding("has(self.b) ? self.b : self.a.map(x, x.ip)")), "a: [{}]", nil, []string{`"ip"`, "element"}},
		"one expression of two that fails":                      {of(holding("self.a.map(x, x.ip)", "self.b")), "a: [{}]\nb: [10.0.0.1]", []string{"10.0.0.1/32"}, []string{"spec.addresses[0]"}},
		"an expression that costs too much": {
			of(holding("self.l.map(a, self.l.map(b, self.l.map(c, self.l.map(d, a + b + c + d))))")), long, nil, []string{"cost"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := compile(t, tc.edits...).Prefixes(object(t, tc.manifest))
			if len(tc.parts) > 0 {
				wantError(t, err, tc.parts)
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, texts(got)); diff != "" {
				t.Errorf("prefixes (-want +got):\n%s", diff)
			}
		})
	}
}

func texts(prefixes []netip.Prefix) []string {
	var list []string
	for _, p := range prefixes {
		list = append(list, p.String())
	}
	slices.Sort(list)
	return list
}

func TestCompiledIsSafeForConcurrentUse(t *testing.T) {
	c := compile(t, holding("self.spec.ipam.pool.map(k, k)"), nodeNameIs("self.metadata.name"))
	u := object(t, ciliumNode)
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			_, err := c.Object(u)
			_, errPrefixes := c.Prefixes(u)
			c.Entry(service(), authority)
			return errors.Join(err, errPrefixes)
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
