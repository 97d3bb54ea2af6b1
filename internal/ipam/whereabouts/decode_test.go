// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// compareAddrs makes go-cmp compare addresses, whose fields are not exported.
var compareAddrs = cmpopts.EquateComparable(netip.Addr{})

func newPool(name, rangeText, version string, allocations map[string]wb.IPAllocation) *wb.IPPool {
	return &wb.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: version},
		Spec:       wb.IPPoolSpec{Range: rangeText, Allocations: allocations},
	}
}

func entryOf(pool, ip, sandbox, podRef, iface string) ipam.Entry {
	e := ipam.Entry{Key: ipam.Key{
		Backend: Name, Pool: "kube-system/" + pool, IP: netip.MustParseAddr(ip),
		SandboxID: sandbox, PodRef: podRef, Interface: iface,
	}}
	e.Owner, e.Releasing, _ = ipam.ParseReference(podRef)
	return e
}

func TestAllocationsAreDecoded(t *testing.T) {
	good := wb.IPAllocation{ContainerID: "sb", PodRef: "ns/web-0", IfName: "net1"}
	with := func(podRef string) wb.IPAllocation {
		return wb.IPAllocation{ContainerID: "sb", PodRef: podRef, IfName: "net1"}
	}
	for name, tc := range map[string]struct {
		rangeText, offset string
		raw               wb.IPAllocation
		entry             *ipam.Entry
		message           string // of the problem
	}{
		"IPv4": {"10.0.0.0/24", "7", good, new(entryOf("p", "10.0.0.7", "sb", "ns/web-0", "net1")), ""},
		"IPv6": {"fd00::/64", "256", good, new(entryOf("p", "fd00::100", "sb", "ns/web-0", "net1")), ""},
		"no interface, as old versions wrote it": {
			"10.0.0.0/24", "7", wb.IPAllocation{ContainerID: "sb", PodRef: "ns/web-0"},
			new(entryOf("p", "10.0.0.7", "sb", "ns/web-0", "")), "",
		},
		"a tombstone": {
			"10.0.0.0/24", "7", with("holdfast-releasing/1-2-3"),
			&ipam.Entry{Key: entryOf("p", "10.0.0.7", "sb", "holdfast-releasing/1-2-3", "net1").Key, Releasing: "1-2-3"}, "",
		},
		"an empty podref names no pod, and is reported": {
			"10.0.0.0/24", "7", with(""), &ipam.Entry{Key: entryOf("p", "10.0.0.7", "sb", "", "net1").Key}, `podref is ""`,
		},
		"a podref without a slash names no pod, and is reported": {
			"10.0.0.0/24", "7", with("web-0"), &ipam.Entry{Key: entryOf("p", "10.0.0.7", "sb", "web-0", "net1").Key}, `podref is "web-0"`,
		},
		"a podref with two slashes": {
			"10.0.0.0/24", "7", with("a/b/c"), &ipam.Entry{Key: entryOf("p", "10.0.0.7", "sb", "a/b/c", "net1").Key}, `podref is "a/b/c"`,
		},
		"a podref without a name": {
			"10.0.0.0/24", "7", with("ns/"), &ipam.Entry{Key: entryOf("p", "10.0.0.7", "sb", "ns/", "net1").Key}, `podref is "ns/"`,
		},
		"a tombstone of no record": {
			"10.0.0.0/24", "7", with("holdfast-releasing/"),
			&ipam.Entry{Key: entryOf("p", "10.0.0.7", "sb", "holdfast-releasing/", "net1").Key}, `podref is "holdfast-releasing/"`,
		},
		"an empty sandbox ID cannot be recorded": {
			"10.0.0.0/24", "7", wb.IPAllocation{PodRef: "ns/web-0", IfName: "net1"}, nil, "the sandbox ID is empty",
		},
		"a sandbox ID as long as a record can have": {
			"10.0.0.0/24", "7", wb.IPAllocation{ContainerID: strings.Repeat("s", 246), PodRef: "ns/web-0"},
			new(entryOf("p", "10.0.0.7", strings.Repeat("s", 246), "ns/web-0", "")), "",
		},
		"a sandbox ID that is too long for a record": {
			"10.0.0.0/24", "7", wb.IPAllocation{ContainerID: strings.Repeat("s", 247), PodRef: "ns/web-0"}, nil, "the sandbox ID has 247 characters",
		},
		"a sandbox ID in characters, not bytes": {
			"10.0.0.0/24", "7", wb.IPAllocation{ContainerID: strings.Repeat("é", 246), PodRef: "ns/web-0"},
			new(entryOf("p", "10.0.0.7", strings.Repeat("é", 246), "ns/web-0", "")), "",
		},
		"a namespace that is too long for a record": {"10.0.0.0/24", "7", with(strings.Repeat("n", 254) + "/web-0"), nil, "the podref's namespace has 254 characters"},
		"a pod name that is too long for a record":  {"10.0.0.0/24", "7", with("ns/" + strings.Repeat("w", 254)), nil, "the podref's name has 254 characters"},
		"an offset of 2^63":                         {"fd00::/64", "9223372036854775808", good, nil, "2^63 or more"},
		"an offset outside of the range":            {"10.0.0.0/29", "8", good, nil, "offset 8 lies outside of the range 10.0.0.0/29"},
		"an offset that would leave IPv4":           {"255.255.255.0/24", "4294967295", good, nil, "lies outside of the range"},
		"an offset that would wrap IPv6":            {"ffff:ffff:ffff:ffff:8000::/65", "9223372036854775807", with("ns/web-0"), new(entryOf("p", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "sb", "ns/web-0", "net1")), ""},
		"a negative offset":                         {"10.0.0.0/29", "-1", good, nil, `offset "-1" is no number`},
		"an offset that is no number":               {"10.0.0.0/29", "one", good, nil, `offset "one" is no number`},
		"a second spelling of an offset":            {"10.0.0.0/29", "01", good, nil, "could stand beside it"},
		"a broken range leaves no address":          {"10.0.0/24", "1", good, nil, `the address of offset "1" is unknown: spec.range is "10.0.0/24"`},
		"a range that starts inside a network":      {"10.0.0.9/24", "1", good, nil, "expected it to start with its network address, 10.0.0.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			network, err := parseRange(tc.rangeText)
			got := decodeAllocation("kube-system/p", network, err, tc.offset, tc.raw)
			if diff := cmp.Diff(tc.entry, got.entry, compareAddrs); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}
			if got.podRef != tc.raw.PodRef || got.sandboxID != tc.raw.ContainerID {
				t.Errorf("podref and sandbox are not as recorded: %+v", got)
			}
			if tc.message == "" {
				if got.problem != nil {
					t.Errorf("unexpected problem: %+v", got.problem)
				}
				return
			}
			checkProblem(t, got.problem, ipam.Problem{
				Backend: Name, Pool: "kube-system/p", Offset: tc.offset, PodRef: tc.raw.PodRef, SandboxID: tc.raw.ContainerID, Message: tc.message,
			})
		})
	}
}

// checkProblem compares all but the message, which must contain the wanted one.
func checkProblem(t *testing.T, got *ipam.Problem, want ipam.Problem) {
	t.Helper()
	if got == nil {
		t.Fatalf("no problem; want %+v", want)
	}
	checkMessage(t, problemError(*got), want.Message)
	want.Message = got.Message
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("problem (-want +got):\n%s", diff)
	}
}

type problemError ipam.Problem

func (p problemError) Error() string { return p.Message }

func TestAPoolWithABrokenRangeIsOneProblemOfItsOwn(t *testing.T) {
	_, problem, err := decodePool(newPool("p", "nonsense", "1", map[string]wb.IPAllocation{"1": {}, "2": {}}))
	if err == nil {
		t.Fatal("no error")
	}
	checkProblem(t, problem, ipam.Problem{Backend: Name, Pool: "kube-system/p", Message: "none of its 2 entries can be released"})
}
