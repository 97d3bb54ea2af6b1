// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reboot ends all that runs on a machine, and starts it again.
func (w *World) reboot(f Fault) {
	m := w.at(f)
	if !m.isOn() {
		return
	}
	m.off()
	if f.N%3 == 0 { // whereabouts does not reach the API server yet when its DELs are called
		w.locked(func() {
			for _, b := range m.boxes {
				b.forgotten = true
			}
		})
	}
	w.lose(m)
	w.after(min(f.For, 3*time.Minute), func() { w.boot(m) })
}

// boot starts a machine that is off under the Node object of its name.
func (w *World) boot(m *machine) {
	if w.ctx.Err() != nil || m.isOn() || m.gone || !w.turn(w.ctx, "%s boots", m.name) {
		return
	}
	w.note("%s boots", m.name)
	w.locked(func() { m.on, m.dead = true, "" })
	m.start()
	w.untaint(m.node)
	m.register()
}

// replace switches a machine off for good, deletes its Node, and registers another machine under the name.
func (w *World) replace(f Fault) {
	old := w.at(f)
	if !old.isOn() {
		return
	}
	old.gone = true
	old.off()
	w.lose(old)
	w.act(func() {
		if !rested(w.ctx, f.For/2) || !w.turn(w.ctx, "Node %s is deleted", old.node) {
			return
		}
		w.deleteNode(old.node)
		if !rested(w.ctx, f.For/2) || !w.turn(w.ctx, "another machine is %s", old.node) {
			return
		}
		w.mu.Lock()
		name := fmt.Sprintf("%s-v%d", old.node, len(w.machines)+1)
		w.mu.Unlock()
		w.note("machine %s is %s now", name, old.node)
		w.newMachine(name, old.node).register()
	})
}

// cutOff partitions a machine from the API server; its processes keep running.
func (w *World) cutOff(f Fault) {
	m := w.at(f)
	if !m.isOn() {
		return
	}
	m.partition(f.For)
	w.lose(m)
	w.after(f.For+time.Second, func() {
		if m.isOn() && w.node(m.node) != nil {
			m.report(corev1.ConditionTrue)
		}
	})
}

// reregister deletes the Node of a running machine, which registers again.
func (w *World) reregister(f Fault) {
	m := w.at(f)
	if !m.isOn() || w.node(m.node) == nil {
		return
	}
	w.deleteNode(m.node)
	if !rested(w.ctx, time.Duration(f.N)*15*time.Second) || !w.turn(w.ctx, "%s registers again", m.name) || !m.isOn() {
		return
	}
	m.kubelet.stop()
	m.agent.kill()
	m.register()
}

// clone registers a machine with the IDs of another one, for a while.
func (w *World) clone(f Fault) {
	m := w.at(f)
	w.mu.Lock()
	name := fmt.Sprintf("clone-%d", len(w.machines)+1)
	w.mu.Unlock()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"clone": "yes"}}}
	if err := w.admin.Create(context.Background(), node); err != nil {
		return
	}
	twin := &machine{w: w, name: name, node: name, id: m.id, system: m.system, on: true, boxes: map[string]*box{}, broken: map[Kind]int{}, dir: m.dir, boot: "boot-" + name}
	if f.N%2 == 0 { // a snapshot of the running machine
		twin.boot = m.boot
	}
	twin.report(corev1.ConditionTrue)
	if w.plan.Unowned {
		twin.copySandboxes(m)
		twin.startAgent(node.UID)
	}
	w.after(f.For, func() {
		twin.agent.kill()
		w.deleteNode(name)
	})
}

// copySandboxes makes the runtime of a clone list the sandboxes of the machine from when it was copied. They use no address there.
func (m *machine) copySandboxes(of *machine) {
	for _, b := range of.byAge() {
		if b.namespace == namespace {
			m.boxes[b.id] = &box{id: b.id, namespace: b.namespace, name: b.name, uid: b.uid, machine: m, ready: b.ready, open: b.open, creating: b.creating, running: b.running}
		}
	}
}

// declareDead switches a machine off and adds the out-of-service taint; it comes back later.
func (w *World) declareDead(f Fault) {
	m := w.at(f)
	node := w.node(m.node)
	if !m.isOn() || node == nil {
		return
	}
	m.off()
	w.lose(m)
	w.act(func() {
		if rested(w.ctx, time.Minute) && w.turn(w.ctx, "%s is tainted", m.node) && !m.isOn() {
			w.taint(m.node)
		}
	})
	w.after(f.For+3*time.Minute, func() { w.boot(m) })
}

// taint adds the out-of-service taint, with its consequences.
func (w *World) taint(name string) {
	if node := w.node(name); node != nil {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		w.note("%s is tainted out-of-service: %v", name, w.admin.Update(context.Background(), node))
		w.evict(name)
	}
}

// hangs is how long a hanging kubelet hangs at least.
const hangs = 7 * time.Minute

// declareDeadAlive: an administrator adds the taint although only the kubelet hangs: the sandboxes run, and the agent reports them.
func (w *World) declareDeadAlive(f Fault) {
	m := w.at(f)
	if !m.isOn() || w.node(m.node) == nil {
		return
	}
	m.kubelet.stop()
	w.locked(func() { m.hangs = true })
	if !m.w.plan.Agents || w.isDisturbed(f, agentKinds, m.node, f.For+hangs) {
		w.locked(func() { m.dead = "its machine was declared dead, and no agent could be relied on" })
	}
	w.lose(m)
	w.act(func() {
		if rested(w.ctx, time.Minute) && w.turn(w.ctx, "%s is tainted", m.node) && m.isOn() && w.stands(m) {
			w.taint(m.node)
		}
	})
	w.after(f.For+hangs, func() { w.resume(m) })
}

// resume makes the kubelet of a machine continue, under the present Node object.
func (w *World) resume(m *machine) {
	w.locked(func() { m.hangs = false })
	if node := w.node(m.node); w.ctx.Err() == nil && node != nil && m.isOn() && w.stands(m) {
		w.note("the kubelet of %s goes on", m.name)
		w.untaint(m.node)
		m.report(corev1.ConditionTrue)
		m.kubelet.stop()
		m.startKubelet(node.UID)
	}
}

// evict is the consequence of the taint: the node's pods are deleted, and PodGC removes them.
func (w *World) evict(node string) {
	for _, pod := range w.sortedPods() {
		if pod.Spec.NodeName == node && !pod.Spec.HostNetwork {
			_ = w.client("taint-manager", nil).Delete(w.ctx, pod)
		}
	}
	w.collect(node)
}

func (w *World) untaint(name string) {
	if node := w.node(name); node != nil && len(node.Spec.Taints) > 0 {
		node.Spec.Taints = nil
		_ = w.admin.Update(context.Background(), node)
	}
}

// heal ends all faults: every process runs, and every machine runs or is gone for good.
func (w *World) heal() {
	w.note("everything is healed")
	w.locked(func() {
		w.crash, w.injected = nil, nil
		clear(w.usage.lostDELs)
	})
	for _, m := range w.all() {
		if !m.gone && !m.isOn() {
			w.boot(m)
		}
	}
	for _, name := range []string{"node-1", "node-2"} {
		m := w.at(Fault{Who: name})
		if w.node(name) == nil && m.isOn() {
			m.kubelet.stop()
			m.agent.kill()
			m.register()
		}
		if m.gone {
			w.newMachine(name+"-new", name).register()
		}
	}
	if m, err := w.leader(); err != nil || m.paused {
		w.startManager(0)
	}
	w.locked(func() { w.mute = false })
	if w.plan.Unowned {
		w.replacePodsWithoutStatus()
	}
}

// replacePodsWithoutStatus is the remedy in the message of a held orphan: a pod without a network-status may have its address.
func (w *World) replacePodsWithoutStatus() {
	for _, pod := range w.sortedPods() {
		if pod.Annotations[networkStatus] == "" && len(pod.Annotations["k8s.v1.cni.cncf.io/networks"]) > 0 && pod.DeletionTimestamp == nil {
			err := w.client("person", nil).Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID})
			w.note("a person deletes %s (%s), which shows no address: %v", pod.Name, pod.UID, err)
		}
	}
}
