// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errDied is that the plugin's process would have ended, of which no step of it makes anything else.
var errDied = errors.New("the plugin died")

// manage takes whereabouts' Lease and calls its allocator, as its IPManagement
// does. That one can't be called here: it panics in a goroutine of its own where
// a call is cut off at the wrong moment, and this process is more than one plugin.
func (w *whereabouts) manage(ctx context.Context, limit time.Duration, mode int, ipam *wbkubernetes.KubernetesIPAM) ([]net.IPNet, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	leading := make(chan struct{})
	elector, err := w.elector(limited, ipam, leading)
	if err != nil {
		return nil, err
	}
	elected, resign := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(elected)
	}()
	defer func() {
		resign()
		<-ended
	}()
	select {
	case <-leading:
		return update(limited, mode, ipam)
	case <-limited.Done():
		return nil, fmt.Errorf("time limit exceeded while waiting to become leader: %w", context.Cause(limited))
	}
}

// elector is the one of whereabouts' newLeaderElector: one Lease for all, or one for the node's slice of a network.
func (w *whereabouts) elector(ctx context.Context, ipam *wbkubernetes.KubernetesIPAM, leading chan<- struct{}) (*leaderelection.LeaderElector, error) {
	conf := ipam.Config
	lease := metav1.ObjectMeta{Namespace: ipam.Namespace, Name: "whereabouts"}
	if conf.NodeSliceSize != "" {
		slice, err := wbkubernetes.GetNodeSlicePoolRange(ctx, ipam, w.options.Node)
		if err != nil {
			return nil, fmt.Errorf("%w: node %s has no slice: %w", errDied, w.options.Node, err)
		}
		lease.Name = wbkubernetes.IPPoolName(wbkubernetes.PoolIdentifier{IpRange: slice, NodeName: w.options.Node, NetworkName: conf.NetworkName})
	}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  lease,
			Client:     w.clients.Load().kubernetes.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: conf.PodNamespace + "/" + conf.PodName},
		},
		LeaseDuration:   milliseconds(conf.LeaderLeaseDuration),
		RenewDeadline:   milliseconds(conf.LeaderRenewDeadline),
		RetryPeriod:     milliseconds(conf.LeaderRetryPeriod),
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {}, // whereabouts goes on with what it has begun
		},
	})
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// update is the allocator's call. Where the plugin's process would die of a panic, only the call fails.
func update(ctx context.Context, mode int, ipam *wbkubernetes.KubernetesIPAM) (ips []net.IPNet, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDied, r)
		}
	}()
	return wbkubernetes.IPManagementKubernetesUpdate(ctx, mode, ipam, ipam.Config)
}
