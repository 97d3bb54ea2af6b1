// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hardware tells machines apart (invariant I3: never by a node's name).
type hardware struct{ machineID, systemUUID string }

const (
	// machinesPage bounds one answer of the API server.
	machinesPage = 500
	// machinesReuse is how long one live list serves the many records of one dead node.
	machinesReuse = 30 * time.Second
)

// machines knows which machines are registered, whatever their Nodes' names.
type machines struct {
	cached, live client.Reader
	clock        clock.PassiveClock

	mu     sync.Mutex
	read   time.Time // when the live list began
	listed map[hardware]string
}

// list gives the name of each registered machine's Node: by the cache if since is zero, else by a live list that began
// at since or later.
func (m *machines) list(ctx context.Context, since time.Time) (map[hardware]string, error) {
	if since.IsZero() {
		// A cache answers in one piece, and its objects are only looked at.
		return index(ctx, m.cached, client.UnsafeDisableDeepCopy)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if m.listed != nil && !m.read.Before(since) && now.Sub(m.read) < machinesReuse {
		return m.listed, nil
	}
	listed, err := index(ctx, m.live, client.Limit(machinesPage))
	if err != nil {
		return nil, err
	}
	m.read, m.listed = now, listed
	return listed, nil
}

func index(ctx context.Context, reader client.Reader, options ...client.ListOption) (map[hardware]string, error) {
	found := map[hardware]string{}
	page := ""
	for {
		var nodes corev1.NodeList
		if err := reader.List(ctx, &nodes, append(options, client.Continue(page))...); err != nil {
			return nil, fmt.Errorf("listing nodes for a machine that came back under another name: %w", err)
		}
		for i := range nodes.Items {
			info := &nodes.Items[i].Status.NodeInfo
			if info.MachineID != "" && info.SystemUUID != "" {
				found[hardware{info.MachineID, info.SystemUUID}] = nodes.Items[i].Name
			}
		}
		if page = nodes.Continue; page == "" {
			return found, nil
		}
	}
}
