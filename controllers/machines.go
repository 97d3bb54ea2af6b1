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
		found := map[hardware]string{}
		_, err := index(ctx, m.cached, found, client.UnsafeDisableDeepCopy) // its objects are only looked at
		return found, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if m.listed != nil && !m.read.Before(since) && now.Sub(m.read) < machinesReuse {
		return m.listed, nil
	}
	listed, err := listLive(ctx, m.live)
	if err != nil {
		return nil, err
	}
	m.read, m.listed = now, listed
	return listed, nil
}

// listLive pages; a cache answers in one piece and takes no page.
func listLive(ctx context.Context, reader client.Reader) (map[hardware]string, error) {
	found := map[hardware]string{}
	page := ""
	for {
		next, err := index(ctx, reader, found, client.Limit(machinesPage), client.Continue(page))
		if err != nil {
			return nil, err
		}
		if page = next; page == "" {
			return found, nil
		}
	}
}

// index adds what one list shows, and returns where the next one begins.
func index(ctx context.Context, reader client.Reader, found map[hardware]string, options ...client.ListOption) (string, error) {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, options...); err != nil {
		return "", fmt.Errorf("listing nodes for a machine that came back under another name: %w", err)
	}
	for i := range nodes.Items {
		info := &nodes.Items[i].Status.NodeInfo
		if info.MachineID != "" && info.SystemUUID != "" {
			found[hardware{info.MachineID, info.SystemUUID}] = nodes.Items[i].Name
		}
	}
	return nodes.Continue, nil
}
