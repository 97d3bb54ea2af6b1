// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/cni"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/cri"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/kubelet"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/link"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/node"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

// hardware is what outlives a boot: the machine, and what is on its disk.
type hardware struct {
	node     node.Options
	runtime  *runtime.Runtime
	cns      *cni.CNS // nil where the machine has a range of its own
	networks *cni.Plugins
	// uplink is the machine's network, power is cut with everything else.
	uplink, power *link.Link
	// kubelet is that of the latest boot.
	kubelet *atomic.Pointer[kubelet.Kubelet]
	// socket is where the container runtime serves the CRI.
	socket string
	// agentSwitch keeps Holdfast's agent from running while it is closed.
	agentSwitch *node.Gate
}

// newHardware builds the machine with this number, from 0.
func newHardware(o Options, number int, machine node.Machine, ip netip.Addr, history *runtime.History) (*hardware, error) {
	name := o.Nodes[number]
	h := &hardware{
		kubelet: &atomic.Pointer[kubelet.Kubelet]{}, uplink: link.New(syscall.ENETUNREACH), power: link.New(syscall.ENETUNREACH),
		socket: filepath.Join(o.sockets, fmt.Sprintf("%s-%.8s.sock", name, machine.MachineID)), agentSwitch: &node.Gate{},
	}
	h.runtime = runtime.New(name, o.clock, history)
	if slices.Contains(o.CNSNodes, name) {
		h.cns = cni.NewCNS(name)
	}
	var err error
	h.networks, err = cni.New(cni.Options{
		Node: name, Uplink: h.way, Multus: multusIdentity(o.Config), StateDir: filepath.Join(o.StateDir, name),
		PodCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(number), 0}), 24), CNS: h.cns,
		DelTimeout: o.DelTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("CNI of %s: %w", name, err)
	}
	h.node = node.Options{
		Name: name, Machine: machine, Heartbeat: o.Heartbeat, InternalIP: ip.String(), NetworkReady: h.networks.Ready,
	}
	return h, nil
}

// way is that of everything on the machine to the API server.
func (h *hardware) way(config *rest.Config) *rest.Config {
	return h.power.Apply(h.uplink.Apply(config))
}

// machine is one boot of a simulated node: the parts of it that a real one has, and
// the switches that break it.
type machine struct {
	*hardware
	options Options
	history *runtime.History
	client  kubernetes.Interface // the kubelet's
	gate    *node.Gate
	events  record.EventBroadcaster
	agent   agent
	running sync.WaitGroup // what the boot waits for at its end

	mutex      sync.Mutex
	poweredOff bool
	stop       context.CancelFunc // of the boot
	ended      chan struct{}      // closed at the end of the boot; nil before its start
	cri        *cri.Server        // nil before the start of the boot
	// cnsPods are the pods of the CNS, by UID; a channel is closed once its init
	// containers are through.
	cnsPods map[types.UID]chan struct{}
}

// boot starts the hardware's kubelet, which does not run yet.
func boot(o Options, h *hardware, history *runtime.History) (*machine, error) {
	m := &machine{hardware: h, options: o, history: history, gate: &node.Gate{}, cnsPods: map[types.UID]chan struct{}{}}
	var err error
	if m.client, err = kubernetes.NewForConfig(m.gate.Apply(h.way(node.Identity(o.Config, h.node.Name)))); err != nil {
		return nil, fmt.Errorf("kubelet of %s: %w", h.node.Name, err)
	}
	h.kubelet.Store(m.newKubelet())
	return m, nil
}

func (m *machine) newKubelet() *kubelet.Kubelet {
	m.events = record.NewBroadcaster()
	m.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: m.client.CoreV1().Events("")})
	return kubelet.New(kubelet.Options{
		Node: m.node.Name, HostIP: m.node.InternalIP, Client: m.client, Gate: m.gate, Runtime: m.runtime,
		Networks: m.networks, NetworkReady: m.networks.Ready,
		OnStart: m.onStart, PassesProbes: m.passesProbes, Retry: m.options.Retry,
		Recorder: m.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: m.node.Name}),
		Clock:    m.options.clock, Log: m.options.Log,
	})
}

// multusIdentity is the account of Multus' own manifests.
func multusIdentity(administrator *rest.Config) *rest.Config {
	config := rest.CopyConfig(administrator)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:multus",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
	return config
}

// run registers the node and runs its pods until ctx is done or the power is cut.
func (m *machine) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer m.events.Shutdown()
	on, err := m.begin(ctx, stop)
	if !on {
		return err
	}
	defer m.end()

	if !m.register(ctx) {
		return nil
	}
	go node.Heartbeat(ctx, m.client, m.node, m.options.Log)
	m.options.Log.Info("node runs", "node", m.node.Name, "machineID", m.node.Machine.MachineID)
	return m.kubelet.Load().Run(ctx)
}

// begin starts the container runtime; on is false where the power was cut before the
// boot, or after an error.
func (m *machine) begin(ctx context.Context, stop context.CancelFunc) (on bool, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.poweredOff {
		return false, nil
	}
	if m.cri, err = m.serveCRI(ctx); err != nil {
		return false, err
	}
	m.stop, m.ended = stop, make(chan struct{})
	return true, nil
}

// end is that of a boot: nothing of it runs any more when it returns.
func (m *machine) end() {
	m.stop()
	m.running.Wait()
	m.cri.Stop()
	close(m.ended)
}

// register tries until it succeeds, as a kubelet does, or until ctx is done.
func (m *machine) register(ctx context.Context) bool {
	err := wait.PollUntilContextCancel(ctx, m.options.Retry, true, func(ctx context.Context) (bool, error) {
		err := node.Register(ctx, m.client, m.node)
		if err != nil && ctx.Err() == nil {
			m.options.Log.Warn("node not registered yet", "node", m.node.Name, "err", err)
		}
		return err == nil, nil
	})
	return err == nil
}

// onStart is what the containers of a pod do on this machine. Those of
// whereabouts' DaemonSet give the plugin its kubeconfig, that of azure-cns is the
// CNS, and that of holdfast-agent the agent.
func (m *machine) onStart(ctx context.Context, pod *corev1.Pod) error {
	if isAgent(pod) {
		return m.startAgent(ctx, pod)
	}
	if m.cns != nil && isCNS(pod) {
		return m.startCNS(ctx, pod)
	}
	if !isWhereabouts(pod) {
		return nil
	}
	identity, err := controlplane.ServiceAccount(ctx, m.way(m.options.Config), pod.Namespace, pod.Spec.ServiceAccountName, pod)
	if err != nil {
		return err
	}
	m.options.Log.Info("whereabouts is installed", "node", m.node.Name, "pod", pod.Name)
	return m.networks.Install(identity)
}

// powerOff ends everything on the machine: nothing that runs there gets to say
// or to clean up anything.
func (m *machine) powerOff() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.poweredOff {
		return
	}
	m.poweredOff = true
	m.note(api.EventPowerOff)
	m.gate.Close()
	m.power.Set(true)
	m.killAgent()
	if m.stop != nil {
		m.cri.Stop()
	}
	m.runtime.PowerOff()
	if m.stop != nil {
		m.stop()
	}
}

// awaitEnd returns when nothing of a boot runs any more.
func (m *machine) awaitEnd(ctx context.Context) error {
	m.mutex.Lock()
	ended := m.ended
	m.mutex.Unlock()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of what runs on %s: %w", m.node.Name, context.Cause(ctx))
	}
}

// rebooted is the next boot of a machine whose power was cut, and on which
// nothing runs any more. A network that was cut stays cut.
func (m *machine) rebooted() (*machine, error) {
	h := *m.hardware
	h.node.Machine = h.node.Machine.Rebooted()
	h.runtime.PowerOn()
	h.power.Set(false)
	return boot(m.options, &h, m.history)
}

func (m *machine) isPoweredOff() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.poweredOff
}

func (m *machine) note(event string) { m.history.Add(api.Event{Node: m.node.Name, Event: event}) }
