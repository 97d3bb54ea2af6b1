// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/token"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/cni"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/kubelet"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/node"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/runtime"
)

// machine is one stand-in node: the parts of it that a real one has, and the
// switches that break it.
type machine struct {
	options  Options
	history  *runtime.History
	node     node.Options
	client   kubernetes.Interface // the kubelet's
	gate     *node.Gate
	runtime  *runtime.Runtime
	networks *cni.Plugins
	kubelet  *kubelet.Kubelet
	events   record.EventBroadcaster

	mutex      sync.Mutex
	poweredOff bool
	stop       context.CancelFunc // of the boot
}

// newMachine builds the machine with this number, from 0. It does not run yet.
func newMachine(o Options, number int, history *runtime.History) (*machine, error) {
	name := o.Nodes[number]
	m := &machine{options: o, history: history, gate: &node.Gate{}}
	m.node = node.Options{
		Name: name, Machine: node.NewMachine(name), Heartbeat: o.Heartbeat,
		InternalIP: netip.AddrFrom4([4]byte{203, 0, 113, byte(number + 10)}).String(), // TEST-NET-3, RFC 5737
	}
	m.runtime = runtime.New(name, o.clock, history, func(uid string) { m.kubelet.Poke(types.UID(uid)) })
	var err error
	if m.client, err = kubernetes.NewForConfig(m.gate.Apply(node.Identity(o.Config, name))); err != nil {
		return nil, fmt.Errorf("kubelet of %s: %w", name, err)
	}
	m.networks, err = cni.New(cni.Options{
		Node: name, Multus: multusIdentity(o.Config), MultusNamespace: DefaultWhereaboutsNamespace,
		WhereaboutsNamespace: o.WhereaboutsNamespace, StateDir: filepath.Join(o.StateDir, name),
		PodCIDR:    netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(number), 0}), 24),
		AddTimeout: o.AddTimeout, DelTimeout: o.DelTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("CNI of %s: %w", name, err)
	}
	m.kubelet = m.newKubelet()
	return m, nil
}

func (m *machine) newKubelet() *kubelet.Kubelet {
	m.events = record.NewBroadcaster()
	m.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: m.client.CoreV1().Events("")})
	return kubelet.New(kubelet.Options{
		Node: m.node.Name, HostIP: m.node.InternalIP, Client: m.client, Gate: m.gate, Runtime: m.runtime,
		Networks: m.networks, OnStart: m.onStart, MaxGrace: max(0, m.options.MaxGrace), Retry: m.options.Retry,
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

// run registers the node and runs its pods until ctx ends or the power is cut.
func (m *machine) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m.mutex.Lock()
	m.stop = stop
	m.mutex.Unlock()
	defer m.events.Shutdown()

	if !m.register(ctx) {
		return nil
	}
	go node.Heartbeat(ctx, m.client, m.node, m.options.Log)
	m.options.Log.Info("node runs", "node", m.node.Name, "machineID", m.node.Machine.MachineID)
	return m.kubelet.Run(ctx)
}

// register tries until it succeeds, as a kubelet does, or until ctx ends.
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
// whereabouts' DaemonSet give the plugin its kubeconfig.
func (m *machine) onStart(ctx context.Context, pod *corev1.Pod) error {
	if !isWhereabouts(pod, m.options.WhereaboutsNamespace) {
		return nil
	}
	identity, err := token.ForPod(ctx, m.options.Config, pod)
	if err != nil {
		return err
	}
	m.options.Log.Info("whereabouts is installed", "node", m.node.Name, "pod", pod.Name)
	return m.networks.Install(identity)
}

func (m *machine) freeze() {
	m.gate.Close()
	m.note(api.EventFreeze)
}

func (m *machine) thaw() {
	m.gate.Open()
	m.note(api.EventThaw)
}

func (m *machine) cutCNI(cut bool) {
	m.networks.Cut(cut)
	if cut {
		m.note(api.EventCutCNI)
		return
	}
	m.note(api.EventMendCNI)
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
	m.networks.Cut(true)
	m.runtime.PowerOff()
	if m.stop != nil {
		m.stop()
	}
}

func (m *machine) isPoweredOff() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.poweredOff
}

func (m *machine) note(event string) { m.history.Add(api.Event{Node: m.node.Name, Event: event}) }
