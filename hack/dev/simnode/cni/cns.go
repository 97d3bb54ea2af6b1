// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/acn"
)

// cnsInterval is how often CNS looks at its NodeNetworkConfig.
const cnsInterval = 200 * time.Millisecond

// errNoCNS is what a machine without a running CNS comes to.
var errNoCNS = errors.New("cni plugin not initialized: CNS has loaded no addresses on this machine yet")

// CNS stands in for Azure's container networking service on one machine: the
// addresses of its pods are those of the NodeNetworkConfig that has the node's
// name. As Azure's (azure-container-networking #4210) it looks at the name alone:
// neither at the UID of the owner nor at whether the object is being deleted; and
// what it has loaded, it keeps for as long as the machine runs. It is safe for
// concurrent use.
type CNS struct {
	node string

	mutex    sync.Mutex
	networks []*clusterNetwork // in the order in which they were loaded
}

// NewCNS returns the CNS of a machine, which has no addresses before Run.
func NewCNS(node string) *CNS { return &CNS{node: node} }

// Run loads the prefixes of the node's NodeNetworkConfig, and those that come
// later, until ctx is done. It calls report for each object with a new prefix.
func (c *CNS) Run(ctx context.Context, reader client.Reader, report func(string)) {
	last := ""
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		news, err := c.load(ctx, reader)
		if err != nil && ctx.Err() == nil {
			news = err.Error()
		}
		if news != "" && news != last {
			last = news
			report(news)
		}
	}, cnsInterval)
}

// load returns what it loaded in a sentence; empty if nothing.
func (c *CNS) load(ctx context.Context, reader client.Reader) (string, error) {
	config, err := acn.Get(ctx, reader, c.node)
	if err != nil || config == nil {
		return "", err
	}
	prefixes, err := acn.Prefixes(config)
	if err != nil {
		return "", err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	prefixes = slices.DeleteFunc(prefixes, c.has)
	if len(prefixes) == 0 {
		return "", nil
	}
	for _, prefix := range prefixes {
		c.networks = append(c.networks, newClusterNetwork(prefix))
	}
	return fmt.Sprintf("CNS loads %v from the NodeNetworkConfig of Node UID %s", prefixes, acn.NodeUID(config)), nil
}

func (c *CNS) has(prefix netip.Prefix) bool {
	return slices.ContainsFunc(c.networks, func(n *clusterNetwork) bool { return n.prefix == prefix })
}

// Ready implements podNetwork.
func (c *CNS) Ready() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.networks) == 0 {
		return errNoCNS
	}
	return nil
}

// Add implements podNetwork, with the first prefix that has a free address.
func (c *CNS) Add(sandboxID string) (string, error) {
	if err := c.Ready(); err != nil {
		return "", err
	}
	c.mutex.Lock()
	networks := slices.Clone(c.networks)
	c.mutex.Unlock()
	var errs []error
	for _, network := range networks {
		ip, err := network.Add(sandboxID)
		if err == nil {
			return ip, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// Del implements podNetwork.
func (c *CNS) Del(sandboxID string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, network := range c.networks {
		network.Del(sandboxID)
	}
}
