// SPDX-License-Identifier: Apache-2.0

package shapes_test

// shape is a way in which pods get addresses from whereabouts.
type shape struct {
	// id begins the names of its pods.
	id string
	// name completes "a pod with".
	name string
	// networks are definitions, by name or, where they are not in the pods' namespace, "namespace/name".
	networks map[string]string
	// attach is the pod's networks annotation; defaultNetwork that of its default interface.
	attach, defaultNetwork string
	// holds is what the pod gets.
	holds []holding
	// divided is the range of which nodes have slices.
	divided string
	// quirky: whereabouts' own DEL fails for it, even where everything works.
	quirky bool
}

// holding is one address of a pod.
type holding struct {
	iface string
	// pool is the range of the pool; of a network of node slices it is the name of the NodeSlicePool.
	pool string
	// within is where in the pool the address is; empty is anywhere.
	within string
	// network is whereabouts' network_name.
	network string
	// namespace is that of the pool. Empty is the first.
	namespace string
	sliced    bool
	// unreserved: overlapping ranges are not looked at, so there is no reservation.
	unreserved bool
}

// macvlan is the configuration of a network of one plugin, with these keys of whereabouts.
func macvlan(ipam string) string {
	return `{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"whereabouts",` + ipam + `}}`
}

var shapes = []*shape{
	{
		id: "one", name: "one range",
		networks: map[string]string{"one": macvlan(`"range":"10.101.0.0/24"`)}, attach: "one",
		holds: []holding{{iface: "net1", pool: "10.101.0.0/24"}},
	},
	{
		id: "second-plugin", name: "the IPAM in the second plugin of a list",
		networks: map[string]string{"second-plugin": `{"cniVersion":"0.3.1","name":"listed","plugins":[{"type":"tuning"},
			{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.102.0.0/24"}},{"type":"portmap"}]}`},
		attach: `[{"name":"second-plugin"}]`,
		holds:  []holding{{iface: "net1", pool: "10.102.0.0/24"}},
	},
	{
		id: "two-plugins", name: "an IPAM in each of two plugins of a list",
		networks: map[string]string{"two-plugins": `{"cniVersion":"0.3.1","plugins":[
			{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.103.0.0/24"}},
			{"type":"sbr","ipam":{"type":"whereabouts","range":"10.103.1.0/24"}}]}`},
		attach: "two-plugins",
		holds:  []holding{{iface: "net1", pool: "10.103.0.0/24"}, {iface: "net1", pool: "10.103.1.0/24"}},
	},
	{
		id: "dual-stack", name: "both families in ipRanges",
		networks: map[string]string{"dual-stack": macvlan(`"ipRanges":[{"range":"10.104.0.0/24"},{"range":"fd00:104::/64"}]`)},
		attach:   "dual-stack@dual0",
		holds:    []holding{{iface: "dual0", pool: "10.104.0.0/24"}, {iface: "dual0", pool: "fd00:104::/64"}},
	},
	{
		id: "bounded", name: "a range with start, end and excludes beside ipRanges",
		networks: map[string]string{"bounded": macvlan(`"range":"10.105.0.0/24","range_start":"10.105.0.4","range_end":"10.105.0.15",
			"exclude":["10.105.0.4/30"],"ipRanges":[{"range":"fd00:105::/64","range_start":"fd00:105:0:0:1::"},
			{"range":"10.105.1.9/24","exclude":["10.105.1.0/28"]}]`)},
		attach: "bounded",
		holds: []holding{
			{iface: "net1", pool: "10.105.0.0/24", within: "10.105.0.8/29"},
			{iface: "net1", pool: "fd00:105::/64", within: "fd00:105:0:0:1::/80"},
			{iface: "net1", pool: "10.105.1.0/24", within: "10.105.1.16/28"},
		},
	},
	{
		id: "from-to", name: "a range from one address to another",
		networks: map[string]string{"from-to": macvlan(`"range":"10.106.0.17-10.106.0.30/24"`)}, attach: "from-to",
		holds: []holding{{iface: "net1", pool: "10.106.0.0/24", within: "10.106.0.16/28"}},
	},
	{
		id: "interfaces", name: "several interfaces, two of them of one network, and a network of another namespace",
		networks: map[string]string{"interfaces": macvlan(`"range":"10.107.0.0/24"`), "kube-system/elsewhere": macvlan(`"range":"10.107.1.0/24"`)},
		attach:   "interfaces, kube-system/elsewhere@data0, interfaces",
		holds: []holding{
			{iface: "net1", pool: "10.107.0.0/24"}, {iface: "data0", pool: "10.107.1.0/24"}, {iface: "net3", pool: "10.107.0.0/24"},
		},
	},
	{
		id: "named", name: "two definitions of one named network",
		networks: map[string]string{
			"named-a": macvlan(`"range":"10.108.0.0/24","network_name":"blue-net"`),
			"named-b": macvlan(`"range":"10.108.0.0/24","network_name":"blue-net","ipRanges":[{"range":"fd00:108::/112"}]`),
		},
		attach: "named-a,named-b",
		holds: []holding{
			{iface: "net1", pool: "10.108.0.0/24", network: "blue-net"}, {iface: "net2", pool: "10.108.0.0/24", network: "blue-net"},
			{iface: "net2", pool: "fd00:108::/112", network: "blue-net"},
		},
	},
	{
		id: "same-range", name: "the same range in a named network and in none",
		networks: map[string]string{
			"same-range":       macvlan(`"range":"10.109.0.0/24"`),
			"same-range-named": macvlan(`"range":"10.109.0.0/24","network_name":"green"`),
		},
		attach: "same-range,same-range-named",
		holds:  []holding{{iface: "net1", pool: "10.109.0.0/24"}, {iface: "net2", pool: "10.109.0.0/24", network: "green"}},
	},
	{
		id: "wide", name: "the wider of two overlapping ranges",
		networks: map[string]string{"wide": macvlan(`"range":"10.110.0.0/16"`)}, attach: "wide",
		holds: []holding{{iface: "net1", pool: "10.110.0.0/16"}},
	},
	{
		id: "narrow", name: "the narrower of two overlapping ranges",
		networks: map[string]string{"narrow": macvlan(`"range":"10.110.0.0/24"`)}, attach: "narrow",
		holds: []holding{{iface: "net1", pool: "10.110.0.0/24"}},
	},
	{
		// whereabouts gives the pod one address twice, because the reservation is its own. Each DEL wants to remove that one
		// reservation, so that one of them fails.
		id: "overlapping", name: "two overlapping ranges at once", quirky: true,
		networks: map[string]string{"overlapping-a": macvlan(`"range":"10.111.0.0/16"`), "overlapping-b": macvlan(`"range":"10.111.0.0/24"`)},
		attach:   "overlapping-a,overlapping-b",
		holds:    []holding{{iface: "net1", pool: "10.111.0.0/16"}, {iface: "net2", pool: "10.111.0.0/24"}},
	},
	{
		id: "flat", name: "a definition that names no range, because a flat file does",
		networks: map[string]string{"flat": macvlan(`"configuration_path":"$DIR/flat.conf"`)}, attach: "flat",
		holds: []holding{{iface: "net1", pool: "10.112.0.0/24", within: "10.112.0.16/28", network: "flat"}},
	},
	{
		id: "second-namespace", name: "networks of two whereabouts namespaces",
		networks: map[string]string{
			"second-namespace": macvlan(`"range":"10.114.0.0/24","kubernetes":{"kubeconfig":"$DIR/second.kubeconfig"}`),
			"first-namespace":  macvlan(`"range":"10.114.0.0/24"`),
		},
		attach: "second-namespace,first-namespace",
		holds:  []holding{{iface: "net1", pool: "10.114.0.0/24", namespace: secondNamespace}, {iface: "net2", pool: "10.114.0.0/24"}},
	},
	{
		id: "default", name: "the default interface and another one from whereabouts",
		networks:       map[string]string{"kube-system/default": macvlan(`"range":"10.115.0.0/24"`), "default-extra": macvlan(`"range":"10.115.1.0/24"`)},
		defaultNetwork: "default", attach: "default-extra",
		holds: []holding{{iface: "eth0", pool: "10.115.0.0/24"}, {iface: "net1", pool: "10.115.1.0/24"}},
	},
	{
		id: "default-only", name: "nothing but the default interface from whereabouts",
		networks:       map[string]string{"default-only": macvlan(`"range":"10.116.0.0/24"`)},
		defaultNetwork: `[{"name":"default-only","namespace":"apps"}]`,
		holds:          []holding{{iface: "eth0", pool: "10.116.0.0/24"}},
	},
	{
		id: "sliced", name: "node slices", divided: "10.117.0.0/20",
		networks: map[string]string{"kube-system/sliced": `{"cniVersion":"0.3.1","name":"sliced","type":"macvlan","ipam":{"type":"whereabouts",
			"range":"10.117.0.0/20","node_slice_size":"/24"}}`},
		attach: "kube-system/sliced",
		holds:  []holding{{iface: "net1", pool: "sliced", sliced: true}},
	},
	{
		id: "sliced-named", name: "node slices of a named network, on two interfaces", divided: "10.118.0.0/20",
		networks: map[string]string{"kube-system/sliced-named": `{"cniVersion":"0.3.1","name":"sliced-named","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts",
			"range":"10.118.0.0/20","network_name":"red-net","node_slice_size":"24"}}]}`},
		attach: "kube-system/sliced-named,kube-system/sliced-named",
		holds: []holding{
			{iface: "net1", pool: "red-net", network: "red-net", sliced: true}, {iface: "net2", pool: "red-net", network: "red-net", sliced: true},
		},
	},
	{
		id: "unreserved", name: "overlapping ranges switched off",
		networks: map[string]string{"unreserved": macvlan(`"range":"10.119.0.0/24","enable_overlapping_ranges":false`)}, attach: "unreserved",
		holds: []holding{{iface: "net1", pool: "10.119.0.0/24", unreserved: true}},
	},
	{
		id: "static", name: "a static address beside a range",
		networks: map[string]string{"static": macvlan(`"range":"10.120.0.0/24","addresses":[{"address":"192.0.2.1/24"}]`)}, attach: "static",
		holds: []holding{{iface: "net1", pool: "10.120.0.0/24"}},
	},
	{
		id: "static-only", name: "nothing but a static address, which no pool has",
		networks: map[string]string{"static-only": macvlan(`"addresses":[{"address":"192.0.2.2/24"}]`)}, attach: "static-only",
	},
}
