// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	leaseNamespace = "kube-node-lease"
	// collectedWithin is how soon a Lease is deleted after its Node.
	collectedWithin = 10 * time.Second
)

// register makes the Node object of a machine, or brings an existing one up to date, and starts the kubelet, and the agent where nodes have one.
func (m *machine) register() {
	node := m.w.node(m.node)
	if node == nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
		if err := m.w.admin.Create(context.Background(), node); err != nil {
			panic(fmt.Sprintf("registering %s: %v", m.node, err))
		}
	}
	m.w.locked(func() { m.hangs = false })
	m.report(corev1.ConditionTrue)
	m.startKubelet(node.UID)
	if m.w.plan.Agents {
		m.startAgent(node.UID)
	}
}

// report writes the Node's status as its kubelet, or, with another condition than True, as the node controller.
func (m *machine) report(ready corev1.ConditionStatus) {
	node := m.w.node(m.node)
	if node == nil {
		return
	}
	who, name := nodeUser(m.node), "kubelet"
	if ready == corev1.ConditionTrue {
		node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: m.id, SystemUUID: m.system, BootID: m.boot, KubeletVersion: "v1.37.1"}
	} else {
		who, name = &user.DefaultInfo{Name: "system:serviceaccount:kube-system:node-controller", Groups: []string{user.AllAuthenticated}}, "kube-controller-manager"
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	// A registration is the world's own step: it is not held.
	if err := m.w.client("admin", who).Status().Update(context.Background(), node, client.FieldOwner(name)); err != nil {
		m.w.note("status of %s: %v", m.node, err)
	}
}

// node is a Node by name; nil if there is none.
func (w *World) node(name string) *corev1.Node {
	o := w.server.Find("nodes", "", name)
	if o == nil {
		return nil
	}
	return typed[corev1.Node](w, o).DeepCopy()
}

// renew renews a node's Lease. A kubelet can make it only while its Node stands (component-helpers, apimachinery/lease).
func (k *kubelet) renewLease() {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: k.m.node}}
	err := k.client.Get(context.Background(), client.ObjectKeyFromObject(lease), lease)
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &k.m.node, LeaseDurationSeconds: new(int32(40)), RenewTime: &now}
	switch {
	case err == nil:
		_ = k.client.Update(context.Background(), lease)
	case apierrors.IsNotFound(err) && k.w.node(k.m.node) != nil:
		_ = k.client.Create(context.Background(), lease)
	}
}

// renew keeps the node's Lease. It is only written once for each Node, and while there is no Node, because otherwise no actor reads it.
func (k *kubelet) renew() {
	var known types.UID
	for {
		var stands types.UID
		if node := k.w.node(k.m.node); node != nil {
			stands = node.UID
		}
		if !k.isCut() && (stands == "" || stands != known) {
			if !k.w.turn(k.ctx, "kubelet of %s renews its Lease", k.m.name) {
				return
			}
			known = stands
			k.renewLease()
		}
		if !rested(k.ctx, time.Minute) {
			return
		}
	}
}

// lose sets a node to not Ready after its machine has not responded for a while.
func (w *World) lose(m *machine) {
	w.act(func() {
		if rested(w.ctx, 50*time.Second) && w.turn(w.ctx, "the node controller looks at %s", m.name) && w.isUnresponsive(m) && w.stands(m) {
			w.note("%s is not Ready", m.node)
			m.report(corev1.ConditionUnknown)
		}
	})
}

// stands says whether the Node object of its name is of this machine.
func (w *World) stands(m *machine) bool {
	node := w.node(m.node)
	return node != nil && node.Status.NodeInfo.BootID == m.boot
}

func (w *World) isUnresponsive(m *machine) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !m.on || m.partitioned || m.hangs
}

// deleteNode deletes a Node object. After a minute without one, PodGC ends its pods.
func (w *World) deleteNode(name string) types.UID {
	node := w.node(name)
	if node == nil {
		return ""
	}
	if err := w.admin.Delete(context.Background(), node); err != nil {
		w.note("deleting node %s: %v", name, err)
	}
	w.act(func() {
		if rested(w.ctx, collectedWithin) && w.turn(w.ctx, "the garbage collector takes the Lease of %s", name) {
			_ = w.admin.Delete(context.Background(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: name}})
		}
	})
	w.act(func() {
		if rested(w.ctx, time.Minute) && w.turn(w.ctx, "PodGC looks at %s", name) && w.node(name) == nil {
			w.collect(name)
		}
	})
	return node.UID
}

// collect is PodGC: pods of a deleted node fail, and are deleted at once.
func (w *World) collect(node string) {
	gc := w.client("podgc", &user.DefaultInfo{Name: "system:serviceaccount:kube-system:pod-garbage-collector", Groups: []string{user.AllAuthenticated}})
	for _, pod := range w.sortedPods() {
		if pod.Spec.NodeName != node || pod.Spec.HostNetwork {
			continue
		}
		if !isTerminal(pod) {
			patch := client.MergeFrom(pod.DeepCopy())
			pod.Status.Phase = corev1.PodFailed
			if err := gc.Status().Patch(w.ctx, pod, patch, client.FieldOwner("kube-controller-manager")); err != nil {
				w.note("PodGC: %v", err)
			}
		}
		_ = gc.Delete(w.ctx, pod, client.GracePeriodSeconds(0))
	}
}
