// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"cmp"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	testPool    = "kube-system/10.10.0.0-24"
	testSandbox = "5a00000000000000000000000000000000000000000000000000000000000001"
	testClaim   = "8b0d7b4e-3f0a-4c53-9d1e-1f2a3b4c5d6e"
	testUID     = types.UID("uid-1")
	nodeA       = "node-a"
	nodeB       = "node-b"
)

var (
	testAddress = netip.MustParseAddr("10.10.0.1")
	machineA    = release.Machine{NodeUID: "node-a-uid", MachineID: "m-a", SystemUUID: "s-a", BootID: "b-a"}
	// began is when the Nodes of the tests were there.
	began    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	machineX = release.Machine{NodeUID: "node-a-uid-2", MachineID: "m-x", SystemUUID: "s-x", BootID: "b-x"}
)

func running() Pod { return Pod{UID: testUID, NodeName: nodeA, Ending: release.EndingNone} }

func deleting(ending release.Ending) Pod {
	return Pod{UID: testUID, NodeName: nodeA, Deleting: true, Ending: ending, Begun: began}
}

func held(p Pod) Pod {
	p.Held = true
	return p
}

func ready(m release.Machine) release.Fact[release.Node] {
	return release.Known(release.Node{Machine: m, Ready: true, Registered: began})
}

func notReady(m release.Machine) release.Fact[release.Node] {
	return release.Known(release.Node{Machine: m, Registered: began})
}

// shuttingDown is a Node that its kubelet shuts down.
func shuttingDown(m release.Machine) release.Fact[release.Node] {
	return release.Known(release.Node{Machine: m, ShuttingDown: true, Registered: began})
}

func onNode(name string) release.Fact[DaemonSetPod] {
	return release.Known(DaemonSetPod{Name: "whereabouts-" + name, NodeName: name})
}

// younger is a Ready Node that registered after the pods of the tests began.
func younger(m release.Machine) release.Fact[release.Node] {
	return release.Known(release.Node{Machine: m, Ready: true, Registered: began.Add(time.Second)})
}

func identityOf(m release.Machine) *v1alpha1.NodeIdentity {
	return &v1alpha1.NodeIdentity{UID: m.NodeUID, MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID}
}

// record names the sandbox, and holds the address for the sandbox that is given.
func record(name, node, holdsFor string, m *release.Machine) v1alpha1.IPAllocation {
	r := v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.NodeName = node
	s := v1alpha1.SandboxRecord{ID: testSandbox}
	if m != nil {
		s.Node = identityOf(*m)
	}
	r.Spec.Sandboxes = []v1alpha1.SandboxRecord{s}
	if holdsFor != "" {
		r.Spec.Addresses = []v1alpha1.AddressRecord{{
			Backend: "whereabouts", Pool: testPool, IP: testAddress.String(), SandboxID: holdsFor,
		}}
	}
	return r
}

// seen are records of the pod that say so of its sandboxes.
func seen(s v1alpha1.SandboxesSeen) release.Fact[[]v1alpha1.IPAllocation] {
	r := record(string(testUID), nodeA, testSandbox, &machineA)
	r.Spec.SandboxesSeen = s
	return records(r)
}

// other is a record that does not know the sandbox of the entry, only that of its address.
func other(r v1alpha1.IPAllocation) v1alpha1.IPAllocation {
	r.Spec.Sandboxes = []v1alpha1.SandboxRecord{{ID: r.Spec.Addresses[0].SandboxID}}
	return r
}

func claimOn(node string) release.Fact[Claim] {
	return release.Known(Claim{Name: "apps/net", NodeName: node})
}

func records(r ...v1alpha1.IPAllocation) release.Fact[[]v1alpha1.IPAllocation] {
	return release.Known(r)
}

// situation is a write with one removal. What is left out is Absent; node-a is Ready.
type situation struct {
	writer  Writer
	shared  bool
	agents  bool
	first   bool
	adds    bool
	address release.Fact[netip.Addr]
	pod     release.Fact[Pod]
	// id is the entry's; testSandbox where it is left out. claim is read for a UID alone.
	id      string
	claim   release.Fact[Claim]
	records release.Fact[[]v1alpha1.IPAllocation]
	nodeA   release.Fact[release.Node]
	nodeB   release.Fact[release.Node]
}

func (s situation) judge() Judgment {
	w := &Write{
		Backend: "whereabouts", Pool: testPool, Writer: s.writer, ReconcilerShared: s.shared, Agents: s.agents, Adds: s.adds,
		Nodes: map[string]release.Fact[release.Node]{nodeA: s.nodeA, nodeB: s.nodeB},
		Cases: []Case{{
			Removal: Removal{Offset: "1", Entry: Entry{SandboxID: cmp.Or(s.id, testSandbox), PodRef: "default/web-0", Interface: "net1"}},
			Address: s.address, Pod: s.pod, First: s.first, Claim: s.claim, Records: s.records,
		}},
	}
	return Judge(w)[0]
}

func TestJudge(t *testing.T) {
	finished, foreign, none := release.EndingFinished, release.EndingForeign, release.EndingNone
	type facts = situation
	reconciler := Writer{User: "reconciler", DaemonSetPod: release.Absent[DaemonSetPod]()}
	cni := func(node string) Writer { return Writer{User: "whereabouts", DaemonSetPod: onNode(node)} }
	reported := record(string(testUID), nodeA, "", &machineA)
	reported.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished}
	by := func(m *v1alpha1.NodeIdentity) release.Fact[[]v1alpha1.IPAllocation] {
		r := record(string(testUID), nodeA, "", &machineA)
		r.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, Node: m}
		return records(r)
	}
	elsewhere := record(string(testUID), nodeA, testSandbox, nil)
	elsewhere.Spec.Addresses[0].Pool = "kube-system/blue-10.10.0.0-24"
	completed := record(string(testUID), nodeA, "", &machineA)
	completed.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingCompleted}

	for name, tc := range map[string]struct {
		facts  facts
		want   Outcome
		reason v1alpha1.Reason
	}{
		// Row 1.
		"the manager may release what a running pod holds": {
			facts{writer: Writer{Manager: true}, pod: release.Known(running())}, Allow, v1alpha1.ReasonManagerRelease},

		// Row 4.
		"an ADD may lose an offset that whereabouts cannot read back": {
			facts{adds: true, address: release.Absent[netip.Addr](), pod: release.Known(running())}, Allow, v1alpha1.ReasonNoSuchAddress},
		"an offset that stands for no address, of a pod that is gone": {
			facts{writer: reconciler, adds: true, address: release.Absent[netip.Addr]()}, Allow, v1alpha1.ReasonPodGone},
		"an offset that stands for no address is guarded in a write that adds nothing": {
			facts{address: release.Absent[netip.Addr](), pod: release.Known(running())}, Refuse, v1alpha1.ReasonPodInUse},
		"a write that adds may not take away an entry of a running pod": {
			facts{adds: true, pod: release.Known(running())}, Refuse, v1alpha1.ReasonPodInUse},
		"an offset of an unknown address is guarded in a write that adds": {
			facts{adds: true, address: release.Unknown[netip.Addr]("broken range"), pod: release.Known(running())}, Refuse, v1alpha1.ReasonPodInUse},

		// Row 2.
		"CNI DEL of a running pod whose sandbox is re-created": {
			facts{writer: cni(nodeA), pod: release.Known(running())}, Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL of a completed or evicted pod": {
			facts{writer: cni(nodeA), pod: release.Known(Pod{UID: testUID, NodeName: nodeA, Ending: release.EndingCompleted})}, Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL of a pod that a record holds": {
			facts{writer: cni(nodeA), pod: release.Known(held(deleting(none))),
				records: records(record(string(testUID), nodeA, testSandbox, &machineA))}, Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL after the pod object went, by the node in the record": {
			facts{writer: cni(nodeA), records: records(record(string(testUID), nodeA, testSandbox, nil))}, Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL of the old sandbox while a successor of the same name waits on another node": {
			facts{writer: cni(nodeA), pod: release.Known(Pod{UID: "uid-2", NodeName: nodeB}),
				records: records(record(string(testUID), nodeA, testSandbox, &machineA))}, Allow, v1alpha1.ReasonCNIDelete},
		"without agents, CNI DEL of an orphan of unknown node, by the node of the pod that has the name": {
			facts{writer: cni(nodeA), pod: release.Known(running()),
				records: records(record("orphan-"+testSandbox, "", testSandbox, nil))}, Refuse, v1alpha1.ReasonPodInUse},
		"without agents, a removal of an orphan's entry by the node of a pod that has the name and is being deleted": {
			facts{writer: cni(nodeA), pod: release.Known(held(deleting(none))),
				records: records(record("orphan-"+testSandbox, "", testSandbox, nil))}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"CNI DEL after the machine booted again": {
			facts{writer: cni(nodeA), pod: release.Known(running()), records: records(record(string(testUID), nodeA, testSandbox, &machineA)),
				nodeA: ready(release.Machine{NodeUID: machineA.NodeUID, MachineID: "m-a", SystemUUID: "s-a", BootID: "b-2"})}, Allow, v1alpha1.ReasonCNIDelete},
		"CNI DEL of a rival whose address another UID's record holds for its own sandbox": {
			facts{writer: cni(nodeA), pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA}), records: records(
				record("uid-2", nodeA, testSandbox, nil), other(record(string(testUID), nodeA, "sandbox-0", nil)))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL of a rival without a record": {
			facts{writer: cni(nodeA), pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA}),
				records: records(other(record(string(testUID), nodeA, "sandbox-0", nil)))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL of a rival of an orphan": {
			facts{writer: cni(nodeA), pod: release.Known(running()),
				records: records(other(record("orphan-sandbox-0", "", "sandbox-0", nil)))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL of a predecessor's sandbox, whose address the live pod's record holds for its own": {
			facts{writer: cni(nodeA), pod: release.Known(running()), records: records(
				other(record(string(testUID), nodeA, "sandbox-2", nil)), record("uid-0", nodeA, testSandbox, nil))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL of a predecessor's sandbox that its record knows without the address": {
			facts{writer: cni(nodeA), pod: release.Known(running()), records: records(
				other(record(string(testUID), nodeA, "sandbox-2", nil)), record("uid-0", nodeA, "", nil))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL by a trusted certificate identity of a rival": {
			facts{writer: Writer{User: "cni", CNIUser: true}, pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA}),
				records: records(other(record(string(testUID), nodeA, "sandbox-0", nil)))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL of a sandbox other than the one that the live pod's record has for the address": {
			facts{writer: cni(nodeA), pod: release.Known(running()),
				records: records(other(record(string(testUID), nodeA, "sandbox-0", nil)))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL of such a sandbox while the pod is being deleted": {
			facts{writer: cni(nodeA), pod: release.Known(held(deleting(none))),
				records: records(other(record(string(testUID), nodeA, "sandbox-0", nil)))}, Refuse, v1alpha1.ReasonConflict},
		"CNI DEL while another UID's record holds another address": {
			facts{writer: cni(nodeA), pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA}), address: release.Known(testAddress.Next()),
				records: records(other(record(string(testUID), nodeA, "sandbox-0", nil)))}, Allow, v1alpha1.ReasonCNIDelete},
		"the manager may empty an address that two records hold": {
			facts{writer: Writer{Manager: true}, records: records(other(record(string(testUID), nodeA, "sandbox-0", nil)))},
			Allow, v1alpha1.ReasonManagerRelease},
		"another node's DaemonSet pod": {
			facts{writer: cni(nodeB), pod: release.Known(running())}, Refuse, v1alpha1.ReasonPodInUse},
		"the successor's node may not remove what a record holds elsewhere": {
			facts{writer: cni(nodeA), pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA}),
				records: records(record(string(testUID), nodeB, testSandbox, nil))}, Refuse, v1alpha1.ReasonPodInUse},
		"a DaemonSet pod of a node that shuts down": {
			facts{writer: cni(nodeA), pod: release.Known(running()), nodeA: shuttingDown(machineA)}, Allow, v1alpha1.ReasonCNIDelete},
		"a DaemonSet pod of a node that is not Ready": {
			facts{writer: cni(nodeA), pod: release.Known(running()), nodeA: notReady(machineA)}, Refuse, v1alpha1.ReasonPodInUse},
		"a DaemonSet pod of a Node that is gone": {
			facts{writer: cni(nodeA), pod: release.Known(running()), nodeA: release.Absent[release.Node]()}, Refuse, v1alpha1.ReasonPodInUse},
		"a DaemonSet pod of a machine that replaced the sandbox's": {
			facts{writer: cni(nodeA), pod: release.Known(running()), nodeA: ready(machineX),
				records: records(record(string(testUID), nodeA, testSandbox, &machineA))}, Refuse, v1alpha1.ReasonPodInUse},
		"a pod that is bound to no node yet has no CNI DEL": {
			facts{writer: cni(nodeA), pod: release.Known(Pod{UID: testUID})}, Refuse, v1alpha1.ReasonPodInUse},
		"an orphan without a node and without a pod": {
			facts{writer: cni(nodeA), records: records(record("orphan-"+testSandbox, "", testSandbox, nil))}, Refuse, v1alpha1.ReasonRecordHolds},
		"two records that contradict each other": {
			facts{writer: cni(nodeA), pod: release.Known(running()), records: records(
				record(string(testUID), nodeA, testSandbox, nil), record("uid-2", nodeB, testSandbox, nil))}, Refuse, v1alpha1.ReasonPodInUse},
		"a trusted certificate identity on any Ready node": {
			facts{writer: Writer{User: "cni", CNIUser: true}, pod: release.Known(running())}, Allow, v1alpha1.ReasonCNIDelete},
		"a trusted certificate identity and a node that is not Ready": {
			facts{writer: Writer{User: "cni", CNIUser: true}, pod: release.Known(running()), nodeA: notReady(machineA)}, Refuse, v1alpha1.ReasonPodInUse},

		// Row 2 where agents report a sandbox that its runtime lost.
		"with agents, CNI DEL of a pod, and its record has every sandbox": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(held(deleting(none))), records: seen(v1alpha1.SandboxesSeenAll)}, Allow, v1alpha1.ReasonCNIDelete},
		"with agents, CNI DEL of a pod that is not recorded yet": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(held(deleting(none)))}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, CNI DEL of a pod that is not recorded yet, of which this replica saw the first sandbox get the address": {
			facts{writer: cni(nodeA), agents: true, first: true, pod: release.Known(held(deleting(none)))}, Allow, v1alpha1.ReasonCNIDelete},
		"with agents, CNI DEL of an orphan, of which this replica saw the first sandbox get the address": {
			facts{writer: cni(nodeA), agents: true, first: true, pod: release.Known(held(deleting(none))),
				records: records(record("orphan-"+testSandbox, "", testSandbox, nil))}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, and where the reconciler shares the token, a removal of an orphan's entry by the node of a pod that has the name and is being deleted": {
			facts{writer: cni(nodeA), agents: true, shared: true, pod: release.Known(held(deleting(none))),
				records: records(record("orphan-"+testSandbox, "", testSandbox, nil))}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, CNI DEL of a pod that is not recorded yet, and lives": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(held(running()))}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, CNI DEL of a pod, and its record may lack a sandbox": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(held(deleting(none))), records: seen(v1alpha1.SandboxesSeenSome)}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, CNI DEL of a pod, and its record does not say": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(held(deleting(none))), records: seen("")}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, CNI DEL of a sandbox that the pod's record lacks": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(held(deleting(none))), address: release.Known(testAddress.Next()), records: seen(v1alpha1.SandboxesSeenAll)},
			Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, CNI DEL after the pod object went, and its record may lack a sandbox": {
			facts{writer: cni(nodeA), agents: true, records: seen(v1alpha1.SandboxesSeenSome)}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"with agents, CNI DEL of an earlier pod of the name, and its record has every sandbox": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(held(Pod{UID: "uid-2", NodeName: nodeB})), records: seen(v1alpha1.SandboxesSeenAll)}, Allow, v1alpha1.ReasonCNIDelete},
		"I1: with agents, CNI DEL of an orphan, of which nothing shows which sandboxes had its address": {
			facts{writer: cni(nodeA), agents: true, records: records(record(v1alpha1.OrphanPrefix+testSandbox, nodeA, testSandbox, &machineA))}, Defer, v1alpha1.ReasonCNIDeleteDeferred},
		"I2: with agents, CNI DEL of an orphan about which no node is queried": {
			facts{writer: cni(nodeA), agents: true, id: "vm-1", records: records(record(v1alpha1.OrphanPrefix+"vm-1", nodeA, "vm-1", &machineA))}, Allow, v1alpha1.ReasonCNIDelete},
		"with agents, CNI DEL of a pod that is not guarded": {
			facts{writer: cni(nodeA), agents: true, pod: release.Known(deleting(none))}, Allow, v1alpha1.ReasonCNIDelete},
		"without agents there is no evidence about one": {
			facts{writer: cni(nodeA), pod: release.Known(held(deleting(none))), records: seen(v1alpha1.SandboxesSeenSome)}, Allow, v1alpha1.ReasonCNIDelete},

		// Row 2 where the reconciler shares the DaemonSet's pods.
		"shared with the reconciler: a pod that is being deleted": {
			facts{writer: cni(nodeA), shared: true, pod: release.Known(deleting(none))}, Allow, v1alpha1.ReasonCNIDelete},
		"shared with the reconciler: a pod that is not being deleted": {
			facts{writer: cni(nodeA), shared: true, pod: release.Known(running())}, Refuse, v1alpha1.ReasonPodInUse},
		"shared with the reconciler: a deleting successor does not vouch for its predecessor": {
			facts{writer: cni(nodeA), shared: true, pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA, Deleting: true}),
				records: records(record(string(testUID), nodeA, testSandbox, nil))}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"shared with the reconciler: a record without a pod": {
			facts{writer: cni(nodeA), shared: true, records: records(record(string(testUID), nodeA, testSandbox, nil))}, Refuse, v1alpha1.ReasonRecordHolds},

		// Rows 3 and 5.
		"S0: a Pending pod without network-status": {
			facts{writer: reconciler, pod: release.Known(held(running()))}, Refuse, v1alpha1.ReasonPodInUse},
		"a deleting pod that runs on": {
			facts{writer: reconciler, pod: release.Known(deleting(none))}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"PodGC's faked end": {
			facts{writer: reconciler, pod: release.Known(deleting(foreign))}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"a pod that completed before its deletion": {
			facts{writer: reconciler, pod: release.Known(deleting(release.EndingCompleted))}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"a pod that was rejected": {
			facts{writer: reconciler, pod: release.Known(deleting(release.EndingRejected))}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"a kubelet-finished pod that no record holds": {
			facts{writer: reconciler, pod: release.Known(deleting(finished))}, Allow, v1alpha1.ReasonKubeletFinished},
		"a pod that the record knows to be kubelet-finished": {
			facts{writer: reconciler, pod: release.Known(held(deleting(release.EndingCompleted))), records: records(reported)}, Allow, v1alpha1.ReasonKubeletFinished},
		"a pod that the record knows to be completed": {
			facts{writer: reconciler, pod: release.Known(held(deleting(release.EndingCompleted))), records: records(completed)}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"a kubelet-finished pod whose record still holds the address": {
			facts{writer: reconciler, pod: release.Known(held(deleting(finished))),
				records: records(record(string(testUID), nodeA, testSandbox, &machineA))}, Refuse, v1alpha1.ReasonRecordHolds},
		"a kubelet-finished pod that is held and not recorded yet": {
			facts{writer: reconciler, pod: release.Known(held(deleting(finished)))}, Refuse, v1alpha1.ReasonObservationFailed},
		"a pod that another machine's kubelet finished": {
			facts{writer: reconciler, pod: release.Known(deleting(finished)), nodeA: ready(machineX),
				records: records(record(string(testUID), nodeA, "", &machineA))}, Refuse, v1alpha1.ReasonNodeReplaced},
		"a pod that another machine's kubelet finished, and its own machine is back": {
			facts{writer: reconciler, pod: release.Known(deleting(finished)), records: by(identityOf(machineX))}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"a pod that its own machine's kubelet finished, which has registered again": {
			facts{writer: reconciler, pod: release.Known(deleting(finished)), nodeA: younger(machineA), records: by(identityOf(machineA))}, Allow, v1alpha1.ReasonKubeletFinished},
		"a kubelet-finished pod that is older than its Node": {
			facts{writer: reconciler, pod: release.Known(deleting(finished)), nodeA: younger(machineA), records: by(nil)}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"a kubelet-finished pod with an unknown start": {
			facts{writer: reconciler, pod: release.Known(Pod{UID: testUID, NodeName: nodeA, Deleting: true, Ending: finished}), records: by(nil)}, Refuse, v1alpha1.ReasonKubeletNotFinished},
		"a kubelet-finished pod whose Node is gone": {
			facts{writer: reconciler, pod: release.Known(deleting(finished)), nodeA: release.Absent[release.Node](),
				records: records(record(string(testUID), nodeA, "", &machineA))}, Refuse, v1alpha1.ReasonNodeGone},
		"a kubelet-finished pod whose Node cannot be read": {
			facts{writer: reconciler, pod: release.Known(deleting(finished)), nodeA: release.Unknown[release.Node]("timeout"),
				records: records(record(string(testUID), nodeA, "", &machineA))}, Refuse, v1alpha1.ReasonObservationFailed},
		"a pod that is gone": {
			facts{writer: reconciler}, Allow, v1alpha1.ReasonPodGone},
		"a pod that is gone, with a record": {
			facts{writer: reconciler, records: records(record(string(testUID), nodeA, testSandbox, nil))}, Refuse, v1alpha1.ReasonRecordHolds},
		"a pod that is gone, with a record of the address for another sandbox": {
			facts{writer: reconciler, records: records(record(string(testUID), nodeA, "sandbox-0", nil))}, Refuse, v1alpha1.ReasonConflict},
		"a kubelet-finished pod whose record has the address for its earlier sandbox": {
			facts{writer: reconciler, pod: release.Known(deleting(finished)),
				records: records(record(string(testUID), nodeA, "sandbox-0", nil))}, Refuse, v1alpha1.ReasonConflict},
		"an unknown address, and a record of another sandbox in the pool": {
			facts{writer: reconciler, address: release.Unknown[netip.Addr]("broken range"),
				records: records(record(string(testUID), nodeA, "sandbox-0", nil))}, Refuse, v1alpha1.ReasonConflict},
		"an offset that stands for no address is no place that a record could hold for another sandbox": {
			facts{writer: reconciler, address: release.Absent[netip.Addr](),
				records: records(record(string(testUID), nodeA, "sandbox-0", nil))}, Allow, v1alpha1.ReasonPodGone},
		"a pod that is gone, with a record of the address in another pool": {
			facts{writer: reconciler, records: records(elsewhere)}, Allow, v1alpha1.ReasonPodGone},
		"a pod whose predecessor is known to be kubelet-finished": {
			facts{writer: reconciler, pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA, Deleting: true, Ending: none}), records: records(reported)},
			Refuse, v1alpha1.ReasonKubeletNotFinished},
		"an unknown address, and a record of the sandbox": {
			facts{writer: reconciler, address: release.Unknown[netip.Addr]("broken range"),
				records: records(record(string(testUID), nodeA, testSandbox, nil))}, Refuse, v1alpha1.ReasonRecordHolds},

		// Entries of other owners than sandboxes.
		"a ResourceClaim that exists, in any state of the pod": {
			facts{writer: reconciler, id: testClaim, claim: claimOn(nodeA)}, Refuse, v1alpha1.ReasonOwnedByResourceClaim},
		"a ResourceClaim that exists, and its consumer was finished": {
			facts{writer: reconciler, id: testClaim, claim: claimOn(nodeA), pod: release.Known(deleting(finished))}, Refuse, v1alpha1.ReasonOwnedByResourceClaim},
		"a ResourceClaim that is gone, with the record that reported it": {
			facts{writer: reconciler, id: testClaim, claim: release.Absent[Claim](), records: records(record("orphan-"+testClaim, "", testClaim, nil))},
			Allow, v1alpha1.ReasonResourceClaimGone},
		"a ResourceClaim that is gone, and a record has the address for a sandbox": {
			facts{writer: reconciler, id: testClaim, claim: release.Absent[Claim](), records: records(record(string(testUID), nodeA, testSandbox, nil))},
			Refuse, v1alpha1.ReasonConflict},
		"a ResourceClaim that could not be looked up": {
			facts{writer: reconciler, id: testClaim, claim: release.Unknown[Claim]("timeout")}, Refuse, v1alpha1.ReasonObservationFailed},
		"a ResourceClaim that is gone, and the pod of the reference runs": {
			facts{writer: reconciler, id: testClaim, claim: release.Absent[Claim](), pod: release.Known(running())}, Refuse, v1alpha1.ReasonPodInUse},
		"a ResourceClaim that is gone, and the pod of the reference cannot be read": {
			facts{writer: reconciler, id: testClaim, claim: release.Absent[Claim](), pod: release.Unknown[Pod]("timeout")}, Refuse, v1alpha1.ReasonObservationFailed},
		"the driver on the node of a ResourceClaim": {
			facts{writer: cni(nodeA), id: testClaim, claim: claimOn(nodeA)}, Allow, v1alpha1.ReasonCNIDelete},
		"the driver on another node than the ResourceClaim's": {
			facts{writer: cni(nodeB), id: testClaim, claim: claimOn(nodeA)}, Refuse, v1alpha1.ReasonOwnedByResourceClaim},
		"the driver on the node of a ResourceClaim, under the reconciler's token": {
			facts{writer: cni(nodeA), shared: true, id: testClaim, claim: claimOn(nodeA)}, Refuse, v1alpha1.ReasonOwnedByResourceClaim},
		"the driver on its node, of a ResourceClaim that is allocated to no single node": {
			facts{writer: cni(nodeA), id: testClaim, claim: claimOn("")}, Refuse, v1alpha1.ReasonOwnedByResourceClaim},
		"an ID that no runtime makes, of a pod that is gone": {
			facts{writer: reconciler, id: "vm-1"}, Refuse, v1alpha1.ReasonOwnerKindUnknown},
		"an ID that no runtime makes, of a pod that its kubelet finished": {
			facts{writer: reconciler, id: "vm-1", pod: release.Known(deleting(finished))}, Refuse, v1alpha1.ReasonOwnerKindUnknown},

		// Row 5: facts that could not be read.
		"a pod that cannot be read": {
			facts{writer: reconciler, pod: release.Unknown[Pod]("timeout")}, Refuse, v1alpha1.ReasonObservationFailed},
		"records that cannot be read": {
			facts{writer: reconciler, records: release.Unknown[[]v1alpha1.IPAllocation]("timeout")}, Refuse, v1alpha1.ReasonObservationFailed},
		"a writer whose pod cannot be read": {
			facts{writer: Writer{DaemonSetPod: release.Unknown[DaemonSetPod]("timeout")}, pod: release.Known(running())}, Refuse, v1alpha1.ReasonPodInUse},
		"a writer's Node that cannot be read": {
			facts{writer: cni(nodeA), pod: release.Known(running()), nodeA: release.Unknown[release.Node]("timeout")}, Refuse, v1alpha1.ReasonPodInUse},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.facts.withDefaults().judge()
			if got.Outcome != tc.want || got.Reason != tc.reason {
				t.Fatalf("got outcome %d, reason %s, want %d, %s; message: %s", got.Outcome, got.Reason, tc.want, tc.reason, got.Message)
			}
			if unproven := tc.want != Allow || tc.reason == v1alpha1.ReasonNoSuchAddress; (got.Message != "") != unproven {
				t.Errorf("a message belongs to what is not proven free and to nothing else, got %q", got.Message)
			}
		})
	}
}

// withDefaults makes Absent what the table leaves out.
func (s situation) withDefaults() situation {
	zero := situation{}
	if s.address == zero.address {
		s.address = release.Known(testAddress)
	}
	if s.pod == zero.pod {
		s.pod = release.Absent[Pod]()
	}
	if !s.records.IsRead() && !s.records.IsUnknown() {
		s.records = release.Absent[[]v1alpha1.IPAllocation]()
	}
	if s.nodeA == zero.nodeA {
		s.nodeA = ready(machineA)
	}
	if s.nodeB == zero.nodeB {
		s.nodeB = ready(release.Machine{NodeUID: "node-b-uid"})
	}
	return s
}

func TestNothingReadAllowsNothing(t *testing.T) {
	for name, s := range map[string]situation{
		"no fact at all":                     {},
		"no fact, and the write adds":        {adds: true},
		"only a trusted writer":              {writer: Writer{DaemonSetPod: onNode(nodeA)}},
		"only a trusted identity":            {writer: Writer{CNIUser: true}},
		"only that the pod is gone":          {pod: release.Absent[Pod]()},
		"only that there is no record":       {records: records()},
		"a pod of a zero ending, unrecorded": {pod: release.Known(Pod{Deleting: true}), records: records()},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.judge(); got.Outcome != Refuse {
				t.Errorf("allowed for %s", got.Reason)
			}
		})
	}
}

func TestARefusalSaysWhatWhyAndWhatNow(t *testing.T) {
	message := situation{
		writer: Writer{User: "system:serviceaccount:kube-system:reconciler", DaemonSetPod: release.Absent[DaemonSetPod]()},
		pod:    release.Known(running()),
	}.withDefaults().judge().Message
	for _, part := range []string{
		"UnsafeReleaseRefused", "10.10.0.1", testPool, testSandbox, "net1", "default/web-0", string(testUID), nodeA, // what was found
		"expected no pod of that name", "system:serviceaccount:kube-system:reconciler", "kubectl get ipa",
	} {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not in the message: %s", part, message)
		}
	}
}

func TestARefusalOfARivalNamesTheOtherHolder(t *testing.T) {
	message := situation{
		writer: Writer{User: "whereabouts", DaemonSetPod: onNode(nodeA)}, pod: release.Known(Pod{UID: "uid-2", NodeName: nodeA}),
		records: records(other(record(string(testUID), nodeB, "sandbox-0", nil))),
	}.withDefaults().judge().Message
	for _, part := range []string{"10.10.0.1", "IPAllocation uid-1", `sandbox "sandbox-0"`, nodeB, "may still use it", "Holdfast releases"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not in the message: %s", part, message)
		}
	}
	if strings.Contains(message, "does not count as CNI DEL") {
		t.Errorf("the message says the same thing twice: %s", message)
	}
}

// A client that unprotects a pod writes tombstones for its addresses first: that gives nothing away.
func TestOnlyTheTombstoneOfTheHoldingRecordGivesNothingAway(t *testing.T) {
	holding := records(record(string(testUID), nodeA, testSandbox, &machineA))
	for name, tc := range map[string]struct {
		ref   string
		other bool
		pod   release.Fact[Pod]
		facts release.Fact[[]v1alpha1.IPAllocation]
		want  Outcome
	}{
		"of a pod that is being deleted":             {pod: release.Known(held(deleting(release.EndingNone))), facts: holding, want: Allow},
		"of a pod that is gone":                      {pod: release.Absent[Pod](), facts: holding, want: Allow},
		"of a pod that keeps running":                {pod: release.Known(held(running())), facts: holding, want: Refuse},
		"of a pod that could not be read":            {pod: release.Unknown[Pod]("broken"), facts: holding, want: Refuse},
		"whose record does not hold the address":     {pod: release.Known(held(deleting(release.EndingNone))), facts: records(record(string(testUID), nodeA, "", &machineA)), want: Refuse},
		"whose records could not be read":            {pod: release.Known(held(deleting(release.EndingNone))), facts: release.Unknown[[]v1alpha1.IPAllocation]("broken"), want: Refuse},
		"of another record":                          {ref: "uid-2", pod: release.Known(held(deleting(release.EndingNone))), facts: holding, want: Refuse},
		"that carries the ID of another sandbox too": {other: true, pod: release.Known(held(deleting(release.EndingNone))), facts: holding, want: Refuse},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Write{Backend: "whereabouts", Pool: testPool, Writer: Writer{User: "person"}, Nodes: map[string]release.Fact[release.Node]{nodeA: ready(machineA)},
				Cases: []Case{{Removal: Removal{Offset: "1", Entry: Entry{SandboxID: testSandbox, PodRef: "default/web-0"}, Rewritten: true,
					NewPodRef: v1alpha1.TombstonePrefix + "/" + cmp.Or(tc.ref, string(testUID)), SameSandbox: !tc.other},
					Address: release.Known(testAddress), Pod: tc.pod, Records: tc.facts}}}
			if got := Judge(w)[0]; got.Outcome != tc.want {
				t.Errorf("outcome %v (%s: %s), want %v", got.Outcome, got.Reason, got.Message, tc.want)
			}
		})
	}
}
