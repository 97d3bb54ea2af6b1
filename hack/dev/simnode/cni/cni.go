// SPDX-License-Identifier: Apache-2.0

// Package cni stands in for the CNI plugins of one machine: Multus, which reads
// the pod's networks and reports what they got, the cluster's own pod network,
// and whereabouts, whose real allocator is called with the pool objects of the
// API server. It puts no address on any wire: the simulated runtime keeps the
// book of that.
package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/link"
)

// Options of the plugins of one machine.
type Options struct {
	// Node is the machine's node name.
	Node string
	// Uplink is the machine's way to the API server.
	Uplink func(*rest.Config) *rest.Config
	// Multus is the identity that reads pods and NetworkAttachmentDefinitions and
	// writes network-status.
	Multus *rest.Config
	// StateDir gets whereabouts' configuration file of this machine.
	StateDir string
	// PodCIDR is the machine's part of the cluster's own pod network. It is not
	// looked at where there is a CNS.
	PodCIDR netip.Prefix
	// CNS, where it is not nil, gives the addresses of the pod network.
	CNS *CNS
	// DelTimeout bounds one CNI DEL of whereabouts.
	DelTimeout time.Duration
}

// Plugins are those of one machine. They are safe for concurrent use.
type Plugins struct {
	options Options
	pods    kubernetes.Interface
	nads    nadclient.Interface
	local   *link.Link // the plugins' own part of the way
	cluster podNetwork
	ipam    *whereabouts

	mutex    sync.Mutex
	attached map[string][]attachment // by sandbox ID, as Multus keeps it on disk
}

// New returns the plugins. whereabouts cannot be used before Install.
func New(o Options) (*Plugins, error) {
	p := &Plugins{
		options: o, local: link.New(syscall.ECONNREFUSED), cluster: newClusterNetwork(o.PodCIDR), attached: map[string][]attachment{},
	}
	if o.CNS != nil {
		p.cluster = o.CNS
	}
	config := p.way(o.Multus)
	config.UserAgent = "multus/simnode" // becomes the field manager "multus"
	var err error
	if p.pods, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client of the simulated Multus: %w", err)
	}
	if p.nads, err = nadclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client of the simulated Multus: %w", err)
	}
	p.ipam, err = newWhereabouts(o)
	return p, err
}

// Install gives whereabouts the identity that its DaemonSet pod on this machine
// leaves in the plugin's kubeconfig.
func (p *Plugins) Install(identity *rest.Config) error { return p.ipam.install(p.way(identity)) }

// way is that of a plugin to the API server: a process of its own for each call,
// with a limit of its own.
func (p *Plugins) way(identity *rest.Config) *rest.Config {
	config := p.local.Apply(p.options.Uplink(identity))
	config.QPS = -1
	return config
}

// Ready is nil once pods can get an address of the cluster's own pod network.
func (p *Plugins) Ready() error { return p.cluster.Ready() }

// Cut makes every connection of the plugins to the API server refused, or mends
// that. It outlives a boot.
func (p *Plugins) Cut(cut bool) { p.local.Set(cut) }

// IsCut reports whether connections are refused.
func (p *Plugins) IsCut() bool { return p.local.IsCut() }

// Recorder is called with each address as soon as an interface has it.
type Recorder func(api.Address)

// Add gives the sandbox of a pod its networks, reports them in the pod's
// network-status, and returns the pod's own address. After an error the caller
// runs Del: some networks may have been attached.
func (p *Plugins) Add(ctx context.Context, sandboxID string, pod *corev1.Pod, record Recorder) (podIP string, err error) {
	list, err := p.attachments(ctx, pod)
	if err != nil {
		return "", err
	}
	for _, a := range list {
		p.remember(sandboxID, a) // before the call, so that a failed ADD is followed by its DEL
		a.addresses, err = p.attach(ctx, sandboxID, pod, a)
		if err != nil {
			return "", fmt.Errorf("CNI ADD of network %s, interface %s: %w", a.network, a.interfaceName, err)
		}
		p.remember(sandboxID, a)
		for _, ip := range a.addresses {
			record(api.Address{Interface: a.interfaceName, IP: ip, Network: a.network})
		}
	}
	if err := pause(ctx, duration(pod, api.AddDelayAnnotation)); err != nil {
		return "", err
	}
	list = p.remembered(sandboxID)
	if err := p.reportNetworks(ctx, pod, list); err != nil {
		return "", err
	}
	return first(list[0].addresses), nil
}

func (p *Plugins) attach(ctx context.Context, sandboxID string, pod *corev1.Pod, a attachment) ([]string, error) {
	if a.network == api.ClusterNetwork {
		ip, err := p.cluster.Add(sandboxID)
		return []string{ip}, err
	}
	var addresses []string
	for _, plugin := range a.plugins {
		if !plugin.usesWhereabouts {
			continue // other IPAMs are no business of a simulated node: the interface has no address
		}
		ips, err := p.ipam.add(ctx, call{plugin.config, sandboxID, a.interfaceName, pod})
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, ips...)
	}
	return addresses, nil
}

// Result of the deallocation of one network by Del.
type Result struct {
	// Address has no IP where ADD never came to one.
	Address api.Address
	// Err is what whereabouts found and did not report: its cmdDel drops the error of
	// the deallocation, so that the address leaks (cmd/whereabouts.go).
	Err error
}

// Del takes the sandbox's networks off, the last one first, as Multus remembers
// them, whether or not the API server can be reached. An error means that a
// plugin failed as a process would, and that the runtime asks again.
func (p *Plugins) Del(ctx context.Context, sandboxID string, pod *corev1.Pod) ([]Result, error) {
	var results []Result
	var errs []error
	for _, a := range slices.Backward(p.remembered(sandboxID)) {
		dropped, err := p.detach(ctx, sandboxID, pod, a)
		if err != nil {
			errs = append(errs, fmt.Errorf("CNI DEL of network %s, interface %s: %w", a.network, a.interfaceName, err))
			continue
		}
		for _, ip := range a.orNone() {
			results = append(results, Result{api.Address{Interface: a.interfaceName, IP: ip, Network: a.network}, dropped})
		}
	}
	if len(errs) == 0 {
		p.forget(sandboxID)
	}
	return results, errors.Join(errs...)
}

func (p *Plugins) detach(ctx context.Context, sandboxID string, pod *corev1.Pod, a attachment) (dropped, err error) {
	if a.network == api.ClusterNetwork {
		p.cluster.Del(sandboxID)
		return nil, nil
	}
	for _, plugin := range slices.Backward(a.plugins) {
		if !plugin.usesWhereabouts {
			continue
		}
		failure, err := p.ipam.del(ctx, call{plugin.config, sandboxID, a.interfaceName, pod})
		if err != nil {
			return nil, err
		}
		dropped = errors.Join(dropped, failure)
	}
	return dropped, nil
}

// remember keeps an attachment for the sandbox's DEL, in place of the one of the
// same interface.
func (p *Plugins) remember(sandboxID string, a attachment) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	list := p.attached[sandboxID]
	i := slices.IndexFunc(list, func(b attachment) bool { return b.interfaceName == a.interfaceName })
	if i < 0 {
		p.attached[sandboxID] = append(list, a)
		return
	}
	list[i] = a
}

func (p *Plugins) remembered(sandboxID string) []attachment {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.attached[sandboxID])
}

func (p *Plugins) forget(sandboxID string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.attached, sandboxID)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// duration reads an annotation; zero when it is absent or no duration.
func duration(pod *corev1.Pod, annotation string) time.Duration {
	d, err := time.ParseDuration(pod.Annotations[annotation])
	if err != nil {
		return 0
	}
	return d
}

func pause(ctx context.Context, d time.Duration) error {
	return wait.PollUntilContextCancel(ctx, d, false, func(context.Context) (bool, error) { return true, nil })
}
