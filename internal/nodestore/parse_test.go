// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var (
	network = Store{Backend: HostLocal, Source: "/var/lib/cni/networks", Name: "cbr0"}
	ipam    = Store{Backend: AWSIPAMD, Source: "/var/run/aws-node/ipam.json", Name: "ipam.json"}

	addresses = cmp.Comparer(func(x, y netip.Addr) bool { return x == y })
)

const sandboxA = "3f2a9d5c6b7e8f90112233445566778899aabbccddeeff00112233445566778a"

func TestParseHostLocalAccepts(t *testing.T) {
	cases := map[string]struct {
		name, content string
		want          Entry
	}{
		"a sandbox ID and an interface":                   {"10.1.2.3", sandboxA + "\r\neth0", Entry{IP: netip.MustParseAddr("10.1.2.3"), SandboxID: sandboxA, Interface: "eth0"}},
		"a sandbox ID alone, as written before 0.8.0":     {"10.1.2.3", sandboxA, Entry{IP: netip.MustParseAddr("10.1.2.3"), SandboxID: sandboxA}},
		"an IPv6 address":                                 {"fd00:1::a", sandboxA + "\r\nnet1", Entry{IP: netip.MustParseAddr("fd00:1::a"), SandboxID: sandboxA, Interface: "net1"}},
		"white space around it, which host-local ignores": {"10.1.2.3", "\n" + sandboxA + "\r\neth0\n ", Entry{IP: netip.MustParseAddr("10.1.2.3"), SandboxID: sandboxA, Interface: "eth0"}},
		"an ID of another runtime's form":                 {"10.1.2.3", "k8s_POD.web-0\r\neth0.100", Entry{IP: netip.MustParseAddr("10.1.2.3"), SandboxID: "k8s_POD.web-0", Interface: "eth0.100"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHostLocal(network, tc.name, []byte(tc.content))
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Store, tc.want.Network = network, "cbr0"
			if diff := cmp.Diff(tc.want, got, addresses); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseHostLocalRefuses(t *testing.T) {
	cases := map[string]struct{ name, content, want string }{
		"a name that is no address":                          {"10.1.2.3.bak", sandboxA + "\r\neth0", "is not an IP address"},
		"an address that host-local writes otherwise":        {"fd00:0:0::1", sandboxA + "\r\neth0", "not written as fd00::1"},
		"an IPv4 address in IPv6 form":                       {"::ffff:10.1.2.3", sandboxA + "\r\neth0", "not written as 10.1.2.3"},
		"an address with a zone":                             {"fe80::1%eth0", sandboxA + "\r\neth0", "not written as fe80::1"},
		"an empty file":                                      {"10.1.2.3", "", "empty"},
		"white space":                                        {"10.1.2.3", " \r\n ", "empty"},
		"a line break that no DEL finds":                     {"10.1.2.3", sandboxA + "\neth0", "sandbox ID"},
		"an interface alone":                                 {"10.1.2.3", "-\r\neth0", "sandbox ID"},
		"an ID with a slash":                                 {"10.1.2.3", "a/b\r\neth0", "sandbox ID"},
		"an ID that begins with a dash":                      {"10.1.2.3", "-a\r\neth0", "sandbox ID"},
		"an ID beyond all length":                            {"10.1.2.3", strings.Repeat("a", 300) + "\r\neth0", "300 characters"},
		"an interface that Linux does not have":              {"10.1.2.3", sandboxA + "\r\ninterface-too-long", "not the name of an interface"},
		"an interface with a slash":                          {"10.1.2.3", sandboxA + "\r\na/b", "not the name of an interface"},
		"a third line":                                       {"10.1.2.3", sandboxA + "\r\neth0\r\nmore", "not the name of an interface"},
		"a file larger than an entry":                        {"10.1.2.3", sandboxA + strings.Repeat(" ", 5000), "more than 4096 bytes"},
		"zeros, as file systems leave them at a power cut":   {"10.1.2.3", strings.Repeat("\x00", 70), "sandbox ID"},
		"the lock of the folder, were it taken for an entry": {"lock", "", "is not an IP address"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHostLocal(network, tc.name, []byte(tc.content))
			if err == nil {
				t.Fatalf("accepted as %+v", got)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q in %q", tc.want, err)
			}
		})
	}
}

func TestOnlyFilesThatAreNoEntriesAreLeftOut(t *testing.T) {
	cases := map[string]struct {
		name string
		want bool
	}{
		"the lock":                       {"lock", false},
		"the last address of a range":    {"last_reserved_ip.0", false},
		"an address":                     {"10.1.2.3", true},
		"something else":                 {"lock.old", true},
		"a name that only begins alike":  {"last_reserved_ip", true},
		"an IPv6 address, like any file": {"fd00::1", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := IsHostLocalEntry(tc.name); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

func allocationOf(id, ip string) string {
	return fmt.Sprintf(`{"networkName":"aws-cni","containerID":%q,"ifName":"eth0","ipv4":%q,"allocationTimestamp":1767225600000000000,`+
		`"metadata":{"k8sPodNamespace":"default","k8sPodName":"web-0","interfacesCount":1}}`, id, ip)
}

func checkpointOf(allocations ...string) string {
	return `{"version":"vpc-cni-ipam/1","allocations":[` + strings.Join(allocations, ",") + "]}\n"
}

func TestParseCheckpoint(t *testing.T) {
	entry := Entry{Store: ipam, IP: netip.MustParseAddr("192.168.1.5"), SandboxID: sandboxA, Interface: "eth0", Network: "aws-cni", Pod: "default/web-0"}
	v6 := Entry{Store: ipam, IP: netip.MustParseAddr("2001:db8::5"), SandboxID: sandboxA, Interface: "eth0", Network: "aws-cni"}
	old := Entry{Store: ipam, IP: netip.MustParseAddr("192.168.1.6"), SandboxID: sandboxA, Interface: "unknown", Network: "_migrated-from-cri"}
	cases := map[string]struct {
		content string
		want    Reading
	}{
		"nothing assigned": {checkpointOf(), Reading{}},
		"an allocation":    {checkpointOf(allocationOf(sandboxA, "192.168.1.5")), Reading{Entries: []Entry{entry}}},
		"an IPv6 one without metadata, and one that was taken over from the runtime": {
			checkpointOf(`{"networkName":"aws-cni","containerID":"`+sandboxA+`","ifName":"eth0","ipv6":"2001:db8::5","allocationTimestamp":1,"metadata":{}}`,
				`{"networkName":"_migrated-from-cri","containerID":"`+sandboxA+`","ifName":"unknown","ipv4":"192.168.1.6","allocationTimestamp":1,"metadata":{"k8sPodName":"web-0"}}`),
			Reading{Entries: []Entry{v6, old}}},
		"fields that are not known within the version": {
			`{"version":"vpc-cni-ipam/1","more":1,"allocations":[` + strings.TrimSuffix(allocationOf(sandboxA, "192.168.1.5"), "}") + `,"newer":{}}]}`,
			Reading{Entries: []Entry{entry}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Store = ipam
			if diff := cmp.Diff(tc.want, ParseCheckpoint(ipam, "/f", []byte(tc.content)), addresses); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestACheckpointThatIsNotUnderstoodProvesNothing(t *testing.T) {
	cases := map[string]struct {
		content string
		reason  v1alpha1.Reason
		want    string
	}{
		"an empty file":                      {"", v1alpha1.ReasonStoreBroken, "unexpected end of JSON input"},
		"half a file":                        {`{"version":"vpc-cni-ipam/1","allocations":[{"net`, v1alpha1.ReasonStoreBroken, "not a checkpoint"},
		"no JSON":                            {"\x00\x00\x00", v1alpha1.ReasonStoreBroken, "not a checkpoint"},
		"two values":                         {checkpointOf() + checkpointOf(), v1alpha1.ReasonStoreBroken, "after top-level value"},
		"a list":                             {"[]", v1alpha1.ReasonStoreBroken, "not a checkpoint"},
		"no version":                         {`{"allocations":[]}`, v1alpha1.ReasonStoreBroken, "names no version"},
		"a version of another type":          {`{"version":1,"allocations":[]}`, v1alpha1.ReasonStoreBroken, "not a checkpoint"},
		"the next version":                   {`{"version":"vpc-cni-ipam/2","allocations":[` + allocationOf(sandboxA, "192.168.1.5") + `]}`, v1alpha1.ReasonStoreVersionUnknown, `"vpc-cni-ipam/2"; only "vpc-cni-ipam/1"`},
		"no list of allocations":             {`{"version":"vpc-cni-ipam/1"}`, v1alpha1.ReasonStoreBroken, "no list"},
		"null in place of a list":            {`{"version":"vpc-cni-ipam/1","allocations":null}`, v1alpha1.ReasonStoreBroken, "no list"},
		"a version without a number":         {`{"version":"vpc-cni-ipam","allocations":[]}`, v1alpha1.ReasonStoreVersionUnknown, `"vpc-cni-ipam"`},
		"a file larger than a node can make": {checkpointOf() + strings.Repeat(" ", MaxCheckpoint), v1alpha1.ReasonStoreBroken, "more than"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ParseCheckpoint(ipam, "/f", []byte(tc.content))
			if !got.Unknown || len(got.Entries) != 0 || len(got.Defects) != 1 {
				t.Fatalf("want one defect, no entry and Unknown, got %+v", got)
			}
			if d := got.Defects[0]; d.Reason != tc.reason || d.Path != "/f" || d.Store != ipam || !strings.Contains(d.Message, tc.want) {
				t.Errorf("want %s with %q, got %+v", tc.reason, tc.want, d)
			}
		})
	}
}

func TestABrokenAllocationHidesNoOther(t *testing.T) {
	good := allocationOf(sandboxA, "192.168.1.5")
	cases := map[string]string{
		"no sandbox ID":           allocationOf("", "192.168.1.6"),
		"no address":              allocationOf(sandboxA, ""),
		"no IPv4 address":         allocationOf(sandboxA, "2001:db8::1"),
		"not an address":          allocationOf(sandboxA, "192.168.1"),
		"two addresses":           strings.Replace(good, `"ipv4"`, `"ipv6":"2001:db8::1","ipv4"`, 1),
		"another type":            `"text"`,
		"no interface":            strings.Replace(good, `"eth0"`, `""`, 1),
		"no network":              strings.Replace(good, `"aws-cni"`, `""`, 1),
		"no time of allocation":   strings.Replace(good, `"allocationTimestamp":1767225600000000000,`, "", 1),
		"null":                    "null",
		"an ID that is no string": strings.Replace(good, `"`+sandboxA+`"`, "7", 1),
	}
	for name, broken := range cases {
		t.Run(name, func(t *testing.T) {
			got := ParseCheckpoint(ipam, "/f", []byte(checkpointOf(broken, good)))
			if got.Unknown || len(got.Entries) != 1 || len(got.Defects) != 1 || got.Defects[0].Reason != v1alpha1.ReasonStoreBroken {
				t.Errorf("want the other allocation and one defect, got %+v", got)
			}
		})
	}
}
