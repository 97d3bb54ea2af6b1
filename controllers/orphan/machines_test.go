// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// machinesOfTest observes Nodes without a controller: each call makes it list them, and look for the kubelets of deleted ones.
type machinesOfTest struct {
	cache, live client.Client
	clock       clock.PassiveClock
	objects     map[types.UID]*v1alpha1.GuardedNode
	names       map[string]time.Time
	// unconfirmed: live reads confirm nothing. acquired is since when Nodes are observed.
	unconfirmed bool
	acquired    time.Time
}

func newMachines(cache, live client.Client, clk clock.PassiveClock) *machinesOfTest {
	return &machinesOfTest{cache: cache, live: live, clock: clk, objects: map[types.UID]*v1alpha1.GuardedNode{},
		names: map[string]time.Time{}, acquired: onepod.Now.Add(-time.Hour)}
}

func (m *machinesOfTest) observe(ctx context.Context, from client.Client) (*nodelife.Lifecycle, error) {
	settings, now := release.Settings{NodeGoneDelay: onepod.NodeGoneDelay}, m.clock.Now()
	l := &nodelife.Lifecycle{Settings: settings, Acquired: m.acquired, Kubelets: map[string]nodelife.Kubelet{}}
	var nodes corev1.NodeList
	if err := from.List(ctx, &nodes); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		l.Nodes = append(l.Nodes, facts.Node(n))
		if m.objects[n.UID] == nil {
			m.objects[n.UID] = &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(n.UID)}, Spec: v1alpha1.GuardedNodeSpec{NodeName: n.Name}}
		}
	}
	for uid, object := range m.objects {
		kubelet, err := m.kubelet(ctx, object.Spec.NodeName)
		if err != nil {
			return nil, err
		}
		l.Kubelets[object.Spec.NodeName] = kubelet
		object.Spec = nodelife.Next(&nodelife.Observation{UID: uid, Spec: object.Spec, Live: l.Nodes, Kubelet: release.Known(kubelet), Settings: settings}, now)
		l.Objects = append(l.Objects, *object)
	}
	return l, nil
}

func (m *machinesOfTest) kubelet(ctx context.Context, node string) (nodelife.Kubelet, error) {
	var lease coordinationv1.Lease
	err := m.cache.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	return nodelife.Kubelet{LeaseRenewed: lease.Spec.RenewTime}, client.IgnoreNotFound(err)
}

func (m *machinesOfTest) Known(ctx context.Context) (*nodelife.Lifecycle, error) {
	return m.observe(ctx, m.cache)
}

func (m *machinesOfTest) All(ctx context.Context, _ time.Time) (*nodelife.Lifecycle, error) {
	if m.unconfirmed {
		return nil, nil
	}
	l, err := m.observe(ctx, m.live)
	if err == nil {
		l.Read = m.clock.Now()
	}
	return l, err
}

func (m *machinesOfTest) ReachedSince() time.Time { return m.acquired }

func (m *machinesOfTest) Gone(ctx context.Context, node string, machines []v1alpha1.NodeIdentity) (nodelife.Absence, error) {
	if len(machines) == 0 {
		if m.names[node].IsZero() {
			m.names[node] = m.clock.Now()
		}
		return nodelife.Absence{Since: m.names[node]}, nil
	}
	l, err := m.All(ctx, m.clock.Now())
	if err != nil {
		return nodelife.Absence{}, err
	}
	return l.Gone(machines, m.clock.Now()), nil
}
