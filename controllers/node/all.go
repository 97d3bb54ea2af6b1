// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// Known is the state of all machines from caches and notes. It is no evidence.
func (l *Lifecycle) Known(ctx context.Context) (*nodelife.Lifecycle, error) {
	known := &nodelife.Lifecycle{Settings: l.r.options.Settings, Unwritten: l.r.options.Watches.notes.all(), Acquired: l.r.observing()}
	var objects v1alpha1.GuardedNodeList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&objects, &nodes} {
		if err := l.r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("reading Nodes and GuardedNodes from the cache: %w", err)
		}
	}
	known.Objects = objects.Items
	for i := range nodes.Items {
		known.Nodes = append(known.Nodes, facts.Node(&nodes.Items[i]))
	}
	return known, nil
}

// All is the state of all machines from live reads, of the Nodes after a time. It is nil until there is one, and until each Node UID in a record has its
// object (R10): try again after nodelife.ConfirmAgain.
func (l *Lifecycle) All(ctx context.Context, after time.Time) (*nodelife.Lifecycle, error) {
	if !l.r.isComplete() {
		return nil, nil
	}
	read, err := l.confirm(ctx, after.Add(1))
	if err != nil || read == nil {
		return nil, err
	}
	seen, now := *read, l.r.clock.Now()
	seen.Kubelets = map[string]nodelife.Kubelet{}
	for _, gone := range seen.Unreported(now) {
		machine := []v1alpha1.NodeIdentity{gone.Machine}
		if over := seen.Since(machine, now).Since.Add(l.r.options.Settings.NodeGoneDelay); !now.Before(over) && !l.r.options.Settings.HoldGoneNodes {
			if err := l.readKubelets(ctx, &seen, machine, over); err != nil {
				return nil, err
			}
		}
	}
	return &seen, nil
}

// readKubelets reads the signs of the kubelets that may run on one of the machines.
func (l *Lifecycle) readKubelets(ctx context.Context, seen *nodelife.Lifecycle, machines []v1alpha1.NodeIdentity, over time.Time) error {
	for _, name := range slices.Sorted(slices.Values(seen.Names(machines))) {
		kubelet, err := l.r.options.Kubelet(ctx, name, over)
		if err != nil {
			return err
		}
		seen.Kubelets[name] = kubelet
	}
	return nil
}
