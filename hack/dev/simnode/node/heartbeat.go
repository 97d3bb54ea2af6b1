// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

// leaseSeconds is the kubelet's default; kube-controller-manager looks at the
// time of the renewal only.
const leaseSeconds = 40

const networkPoll = 100 * time.Millisecond

// Heartbeat renews the node's Lease and reports its status until ctx is done.
// Errors are logged and the next beat tries again.
func Heartbeat(ctx context.Context, client kubernetes.Interface, o Options, log *slog.Logger) {
	renew := lease.NewController(clock.RealClock{}, client, o.Name, leaseSeconds, func() {}, o.Heartbeat,
		o.Name, corev1.NamespaceNodeLease, ownedByNode(ctx, client, o.Name))
	go renew.Run(ctx)
	beat := func(ctx context.Context) {
		limited, cancel := context.WithTimeout(ctx, max(o.Heartbeat, time.Minute))
		defer cancel()
		if err := report(limited, client, o); err != nil && ctx.Err() == nil {
			log.Warn("node status not reported", "node", o.Name, "err", err)
		}
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		beat(ctx)
		if networkBecomesReady(ctx, o) {
			beat(ctx)
		}
	}, o.Heartbeat)
}

// networkBecomesReady looks for as long as one heartbeat takes: a kubelet looks
// every 100 ms while its node is not Ready (kubelet_node_status.go,
// fastStatusUpdateOnce).
func networkBecomesReady(ctx context.Context, o Options) bool {
	if o.NetworkReady() == nil {
		return false
	}
	err := wait.PollUntilContextTimeout(ctx, networkPoll, o.Heartbeat, false, func(context.Context) (bool, error) {
		return o.NetworkReady() == nil, nil
	})
	return err == nil
}

// ownedByNode sets the Lease's owner once, as kubelet does: a Lease is never
// moved to another Node of the same name (pkg/util/node, SetNodeOwnerFunc).
func ownedByNode(ctx context.Context, client kubernetes.Interface, name string) lease.ProcessLeaseFunc {
	return func(l *coordinationv1.Lease) error {
		if len(l.OwnerReferences) > 0 {
			return nil
		}
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}
		return nil
	}
}
