// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

var (
	epoch  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	byAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func node(name string, ready corev1.ConditionStatus, taints ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: ready},
		}
	}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	return n
}

func TestNodeStates(t *testing.T) {
	const outOfService, unreachable = corev1.TaintNodeOutOfService, corev1.TaintNodeUnreachable
	cases := map[string]struct {
		machines []api.Node
		objects  []corev1.Node
		want     map[string]history.NodeState
	}{
		"Ready and acting is live": {
			[]api.Node{{Name: "n"}}, []corev1.Node{node("n", corev1.ConditionTrue)},
			map[string]history.NodeState{"n": history.NodeLive},
		},
		"with its CNI cut, Ready and acting is live": {
			[]api.Node{{Name: "n", APICut: true}}, []corev1.Node{node("n", corev1.ConditionTrue)},
			map[string]history.NodeState{"n": history.NodeLive},
		},
		"frozen but not yet found out is silent": {
			[]api.Node{{Name: "n", Frozen: true}}, []corev1.Node{node("n", corev1.ConditionTrue)},
			map[string]history.NodeState{"n": history.NodeUnresponsive},
		},
		"cut off but not yet found out is silent": {
			[]api.Node{{Name: "n", CutOff: true}}, []corev1.Node{node("n", corev1.ConditionTrue)},
			map[string]history.NodeState{"n": history.NodeUnresponsive},
		},
		"powered off but not yet found out is silent": {
			[]api.Node{{Name: "n", PoweredOff: true}}, []corev1.Node{node("n", corev1.ConditionTrue)},
			map[string]history.NodeState{"n": history.NodeUnresponsive},
		},
		"not Ready without the taint is silent": {
			[]api.Node{{Name: "n", PoweredOff: true}}, []corev1.Node{node("n", corev1.ConditionUnknown, unreachable)},
			map[string]history.NodeState{"n": history.NodeUnresponsive},
		},
		"not Ready and out of service is fenced": {
			[]api.Node{{Name: "n", PoweredOff: true}}, []corev1.Node{node("n", corev1.ConditionUnknown, unreachable, outOfService)},
			map[string]history.NodeState{"n": history.NodeOutOfService},
		},
		"the taint on a dead node that still counts as Ready is no fence yet": {
			[]api.Node{{Name: "n", PoweredOff: true}}, []corev1.Node{node("n", corev1.ConditionTrue, outOfService)},
			map[string]history.NodeState{"n": history.NodeUnresponsive},
		},
		"no condition at all is not Ready": {
			[]api.Node{{Name: "n"}}, []corev1.Node{node("n", "")},
			map[string]history.NodeState{"n": history.NodeUnresponsive},
		},
		"a node that is not simulated is silent": {
			nil, []corev1.Node{node("n", corev1.ConditionTrue)},
			map[string]history.NodeState{"n": history.NodeUnresponsive},
		},
		"a machine without a Node is unknown": {
			[]api.Node{{Name: "n"}}, nil, map[string]history.NodeState{},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, nodeStates(c.machines, c.objects)); diff != "" {
				t.Errorf("nodeStates() (-want +got):\n%s", diff)
			}
		})
	}
}

func pool(name, cidr string, allocations map[string]whereaboutsv1alpha1.IPAllocation) whereaboutsv1alpha1.IPPool {
	return whereaboutsv1alpha1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec:       whereaboutsv1alpha1.IPPoolSpec{Range: cidr, Allocations: allocations},
	}
}

func TestEntries(t *testing.T) {
	one := func(offset string) map[string]whereaboutsv1alpha1.IPAllocation {
		return map[string]whereaboutsv1alpha1.IPAllocation{offset: {ContainerID: "a", PodRef: "demo/web-0", IfName: "net1"}}
	}
	cases := map[string]struct {
		pool    whereaboutsv1alpha1.IPPool
		want    string // the address; empty for an error
		wantErr string
	}{
		"the offset counts from the network address":   {pool("p", "10.80.0.0/29", one("1")), "10.80.0.1", ""},
		"a range may be given by any of its addresses": {pool("p", "10.80.0.3/29", one("2")), "10.80.0.2", ""},
		"offsets carry over bytes":                     {pool("p", "10.80.0.0/16", one("258")), "10.80.1.2", ""},
		"IPv6":                                         {pool("p", "fd00::/64", one("4096")), "fd00::1000", ""},
		"an offset outside the range":                  {pool("p", "10.80.0.0/29", one("8")), "", `offset "8" leads outside the range 10.80.0.0/29`},
		"an offset outside every range":                {pool("p", "255.255.255.0/24", one("256")), "", "leads outside the range"},
		"an offset beyond 64 bits":                     {pool("p", "10.80.0.0/29", one("18446744073709551617")), "", "leads outside the range"},
		"a negative offset":                            {pool("p", "10.80.0.0/29", one("-1")), "", "no decimal number"},
		"an offset that is no number":                  {pool("p", "10.80.0.0/29", one("x")), "", "no decimal number"},
		"a range that is none":                         {pool("p", "10.80.0.0", one("1")), "", `IPPool kube-system/p: range "10.80.0.0"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := entries([]whereaboutsv1alpha1.IPPool{c.pool})
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("entries() = %v, error %v; want an error with %q", got, err, c.wantErr)
				}
				return
			}
			want := []history.Entry{{Pool: "kube-system/p", IP: netip.MustParseAddr(c.want), SandboxID: "a", PodRef: "demo/web-0"}}
			if diff := cmp.Diff(want, got, byAddr); diff != "" || err != nil {
				t.Errorf("entries() error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestSandboxes(t *testing.T) {
	list := []api.Sandbox{{
		ID: "a", Node: "n1", PodUID: "u1", PodNamespace: "demo", PodName: "web-0", State: api.StateReady, Alive: true,
		Addresses: []api.Address{{Interface: "net1", IP: "10.80.0.1"}, {Interface: "net2", IP: "::ffff:10.80.0.9"}},
	}}
	events := []api.Event{
		{Time: epoch, SandboxID: "a", Event: api.EventCreate},
		{Time: epoch.Add(time.Second), SandboxID: "a", Event: api.EventAdd, IP: "10.80.0.1"},
		{Time: epoch.Add(time.Hour), SandboxID: "b", Event: api.EventAdd, IP: "10.80.0.1"},
	}
	want := []history.Sandbox{{
		ID: "a", Node: "n1", Pod: "demo/web-0", PodUID: "u1", Alive: true, Ready: true,
		Addresses: []history.Address{
			{IP: netip.MustParseAddr("10.80.0.1"), Since: epoch.Add(time.Second)}, {IP: netip.MustParseAddr("10.80.0.9")},
		},
	}}
	got, err := sandboxes(list, events)
	if diff := cmp.Diff(want, got, byAddr); diff != "" || err != nil {
		t.Errorf("sandboxes() error %v (-want +got):\n%s", err, diff)
	}
	list[0].Addresses[0].IP = "10.80.0"
	if _, err := sandboxes(list, events); err == nil || !strings.Contains(err.Error(), "sandbox a on n1, interface net1") {
		t.Errorf("sandboxes() with an address that is none: error %v, want one that names sandbox and interface", err)
	}
}

func TestASandboxIsGoneWithItsNetworkNamespace(t *testing.T) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	event := func(seconds int, node, sandbox, event string) api.Event {
		return api.Event{Time: at(seconds), Node: node, SandboxID: sandbox, Event: event}
	}
	ended := func(seconds int) *time.Time { t := at(seconds); return &t }
	cases := map[string]struct {
		endedAt *time.Time
		events  []api.Event
		want    time.Time // zero: not gone
	}{
		"it lives":                               {},
		"its process has ended, CNI DEL goes on": {endedAt: ended(5)},
		"its network namespace is closed":        {ended(5), []api.Event{event(8, "n", "a", api.EventRemove)}, at(8)},
		"another one's network namespace":        {ended(5), []api.Event{event(8, "n", "b", api.EventRemove)}, time.Time{}},
		"its machine is powered off":             {ended(5), []api.Event{event(5, "n", "", api.EventPowerOff)}, at(5)},
		"powered off while CNI DEL went on":      {ended(5), []api.Event{event(7, "n", "", api.EventPowerOff)}, at(7)},
		"another machine is powered off":         {ended(5), []api.Event{event(7, "m", "", api.EventPowerOff)}, time.Time{}},
		"its machine is rebooted, and the new boot removes the record": {
			ended(5), []api.Event{event(5, "n", "", api.EventPowerOff), event(9, "n", "a", api.EventRemove)}, at(5),
		},
		"removed, and its machine is powered off later": {
			ended(5), []api.Event{event(6, "n", "a", api.EventRemove), event(9, "n", "", api.EventPowerOff)}, at(6),
		},
		"replaced alone ends nothing: the power was cut before": {endedAt: ended(5), events: []api.Event{event(7, "n", "", api.EventReplace)}},
		"powered off before it was made":                        {ended(5), []api.Event{event(-1, "n", "", api.EventPowerOff)}, time.Time{}},
		"freezing the kubelet ends nothing":                     {ended(5), []api.Event{event(7, "n", "", api.EventFreeze)}, time.Time{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			list := []api.Sandbox{{ID: "a", Node: "n", State: api.StateNotReady, Alive: c.endedAt == nil, CreatedAt: epoch, EndedAt: c.endedAt}}
			got, err := sandboxes(list, c.events)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Alive != c.want.IsZero() || !got[0].Ended.Equal(c.want) {
				t.Errorf("alive %t, ended %v; want alive %t, ended %v", got[0].Alive, got[0].Ended, c.want.IsZero(), c.want)
			}
		})
	}
}

func TestRestrictLeavesOneRange(t *testing.T) {
	inside, outside := netip.MustParseAddr("10.80.0.1"), netip.MustParseAddr("10.81.0.1")
	sample := history.Sample{
		Sandboxes: []history.Sandbox{{ID: "a", Addresses: []history.Address{{IP: outside}, {IP: inside}}}, {ID: "b", Addresses: []history.Address{{IP: outside}}}},
		Entries:   []history.Entry{{IP: outside}, {IP: inside}},
	}
	got := restrict(sample, netip.MustParsePrefix("10.80.0.0/29"))
	want := history.Sample{
		Sandboxes: []history.Sandbox{{ID: "a", Addresses: []history.Address{{IP: inside}}}, {ID: "b", Addresses: []history.Address{}}},
		Entries:   []history.Entry{{IP: inside}},
	}
	if diff := cmp.Diff(want, got, byAddr); diff != "" {
		t.Errorf("restrict() (-want +got):\n%s", diff)
	}
	if len(sample.Entries) != 2 || sample.Entries[0].IP != outside || len(sample.Sandboxes[0].Addresses) != 2 || sample.Sandboxes[0].Addresses[0].IP != outside {
		t.Error("restrict() changed the sample that it was given")
	}
}

// deadMachines stands for a control socket that nobody answers.
type deadMachines struct{ Machines }

func (deadMachines) Sandboxes(context.Context) ([]api.Sandbox, error) {
	return nil, errors.New("connection refused")
}

func TestABlindObserverIsNotSound(t *testing.T) {
	o := Start(deadMachines{}, nil)
	o.Stop()
	if _, found := o.Latest(netip.MustParsePrefix("0.0.0.0/0")); found {
		t.Error("Latest() shows a sample although no read succeeded")
	}
	err := o.Sound(epoch, epoch.Add(time.Minute))
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Sound() = %v, want an error with the reason of the blindness", err)
	}
	if err := o.Sound(epoch, epoch.Add(blindness)); err != nil {
		t.Errorf("Sound() = %v for a time no longer than what counts as blindness, want nil", err)
	}
}
