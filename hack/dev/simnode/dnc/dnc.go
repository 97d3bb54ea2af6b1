// SPDX-License-Identifier: Apache-2.0

// Package dnc stands in for Azure's network controller (DNC): it gives each node
// a prefix of the overlay, in a NodeNetworkConfig of the node's name that the Node
// owns, and takes the prefix back, slowly, when that object is deleted.
//
// As the real one it works by name: where a NodeNetworkConfig of a node's name
// exists, it writes that one, whichever Node owns it.
package dnc

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/acn"
)

// interval is how often DNC looks at its nodes.
const interval = 200 * time.Millisecond

// Options of DNC.
type Options struct {
	// Client reads Nodes and writes NodeNetworkConfigs; it knows core/v1.
	Client client.Client
	// Range is the overlay, Bits the length of a node's prefix.
	Range netip.Prefix
	Bits  int
	// CleanUp reports whether DNC is through with the clean-up after a node whose
	// NodeNetworkConfig is being deleted; it is asked again and again. Until then that
	// object stays, and its prefix is in use. Default: at once.
	CleanUp func(node string) bool
	// Report gets a sentence for each thing that DNC does or cannot do. Default: none.
	Report func(format string, args ...any)
	// Failed gets the error of each look at a node that failed. Default: none.
	Failed func(node string, err error)
}

// DNC is safe for concurrent use.
type DNC struct {
	options Options

	mutex    sync.Mutex
	nodes    []string
	prefixes prefixes
	programs map[string]int64  // how often each node was programmed anew
	reported map[string]string // the latest trouble of each node; Run's alone
}

// New returns a DNC that does nothing before Run.
func New(o Options) (*DNC, error) {
	free, err := split(o.Range, o.Bits)
	if err != nil {
		return nil, fmt.Errorf("DNC: %w", err)
	}
	if o.Report == nil {
		o.Report = func(string, ...any) {}
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	if o.CleanUp == nil {
		o.CleanUp = func(string) bool { return true }
	}
	return &DNC{options: o, prefixes: prefixes{free: free}, programs: map[string]int64{}, reported: map[string]string{}}, nil
}

// Join makes a node one of the overlay's.
func (d *DNC) Join(node string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !slices.Contains(d.nodes, node) {
		d.nodes = append(d.nodes, node)
	}
}

// Program has DNC write what it has for a node anew, as after a change of the
// network: into the NodeNetworkConfig that has the name, whether or not its Node is
// still there.
func (d *DNC) Program(node string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.programs[node]++
}

// Allocations are the prefixes that are in use.
func (d *DNC) Allocations() []Allocation {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.prefixes.used)
}

// Run works until ctx is done.
func (d *DNC) Run(ctx context.Context) { wait.NonSlidingUntilWithContext(ctx, d.pass, interval) }

// pass looks at every node once. A failure is reported once and tried again by the
// next pass.
func (d *DNC) pass(ctx context.Context) {
	d.mutex.Lock()
	nodes := slices.Clone(d.nodes)
	d.mutex.Unlock()
	for _, node := range nodes {
		err := d.reconcile(ctx, node)
		if ctx.Err() != nil {
			return
		}
		trouble := ""
		if err != nil {
			trouble = err.Error()
			d.options.Failed(node, err)
		}
		if trouble != "" && trouble != d.reported[node] {
			d.options.Report("DNC fails: %s", trouble)
		}
		d.reported[node] = trouble
	}
}

// reconcile brings one node and the NodeNetworkConfig of its name together.
func (d *DNC) reconcile(ctx context.Context, name string) error {
	config, err := acn.Get(ctx, d.options.Client, name)
	if err != nil {
		return err
	}
	if config != nil && config.GetDeletionTimestamp() != nil {
		return d.cleanUp(ctx, config)
	}
	node := &corev1.Node{}
	err = d.options.Client.Get(ctx, client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	if err != nil && config == nil {
		return nil
	}
	if config == nil {
		config = acn.New(node)
		if err := d.options.Client.Create(ctx, config); err != nil {
			return fmt.Errorf("creating the NodeNetworkConfig of %s: %w", name, err)
		}
	}
	return d.assign(ctx, internalIP(node), config)
}

// assign writes what the node may hand out. The address of a Node that is not there
// stays as it was.
func (d *DNC) assign(ctx context.Context, nodeIP string, config *unstructured.Unstructured) error {
	name := config.GetName()
	d.mutex.Lock()
	prefix, err := d.prefixes.allocate(Allocation{NodeName: name, NodeUID: acn.NodeUID(config), ConfigUID: config.GetUID()})
	version := d.programs[name]
	d.mutex.Unlock()
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	changed, err := acn.SetContainer(config, acn.Container{
		ID: string(config.GetUID()), Prefix: prefix, Subnet: d.options.Range, NodeIP: nodeIP, Version: version,
	})
	if err != nil || !changed {
		return err
	}
	if err := d.options.Client.Status().Update(ctx, config); err != nil {
		return fmt.Errorf("writing the status of the NodeNetworkConfig of %s, owned by Node UID %s: %w", name, acn.NodeUID(config), err)
	}
	d.options.Report("DNC writes %s into the NodeNetworkConfig of %s, owned by Node UID %s", prefix, name, acn.NodeUID(config))
	return nil
}

// cleanUp waits until DNC is through, then gives the prefix back and lets the object go.
func (d *DNC) cleanUp(ctx context.Context, config *unstructured.Unstructured) error {
	if !slices.Contains(config.GetFinalizers(), acn.Finalizer) || !d.options.CleanUp(config.GetName()) {
		return nil
	}
	d.mutex.Lock()
	prefix, had := d.prefixes.release(config.GetUID())
	d.mutex.Unlock()
	if had {
		d.options.Report("DNC has cleaned up after %s: %s is free", config.GetName(), prefix)
	}
	before := config.DeepCopy()
	config.SetFinalizers(slices.DeleteFunc(config.GetFinalizers(), func(f string) bool { return f == acn.Finalizer }))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := d.options.Client.Patch(ctx, config, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of the NodeNetworkConfig of %s: %w", config.GetName(), err)
	}
	return nil
}

func internalIP(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}
