// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// networkStatus is the annotation in which Multus shows the addresses of a pod.
const networkStatus = "k8s.v1.cni.cncf.io/network-status"

// start makes a sandbox, has whereabouts give it an address, and reports both; false if that has to be tried again.
func (p *worker) start(pod *corev1.Pod) bool {
	for _, old := range p.m.of(p.uid) {
		if !p.stopBox(old) {
			return false
		}
		p.removeBox(old)
	}
	if len(pod.Annotations["k8s.v1.cni.cncf.io/networks"]) == 0 {
		p.wait(never) // a pod without networks: nothing of it is ever seen here
		return true
	}
	b := p.m.newBox(p.namespace, p.name, p.uid, true)
	p.w.note("%s: sandbox %s", p.m.name, b)
	switch err := p.create(b); {
	case errors.Is(err, errLeft):
		return true // the pod ended, and nothing that the runtime lists is left of it
	case err != nil:
		p.w.note("%s: creating %s failed: %v", p.m.name, b, err)
		p.undo(b)
		return false
	default:
		return p.started(b)
	}
}

// started reports a sandbox that was made.
func (p *worker) started(b *box) bool {
	if pod, known := p.view(); known && p.ended(pod) {
		return true // what follows ends it
	}
	var addresses, shown []string
	p.w.locked(func() { addresses = slices.Clone(b.addresses) })
	for i, address := range addresses {
		shown = append(shown, fmt.Sprintf(`{"name":"%s/%s","interface":"%s","ips":["%s"],"dns":{}}`, namespace, network, devices[i], address))
	}
	status := "[" + strings.Join(shown, ",") + "]"
	p.w.locked(func() {
		if p.w.mute {
			status = ""
		}
	})
	p.retry(func(ctx context.Context) error {
		return p.patch(ctx, p.multus, "multus", map[string]any{"metadata": map[string]any{"uid": p.uid, "annotations": map[string]string{networkStatus: status}}})
	})
	p.retry(func(ctx context.Context) error {
		return p.report(ctx, corev1.PodStatus{Phase: corev1.PodRunning, Conditions: readyToStart(corev1.ConditionTrue, ""),
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}})
	})
	return true
}

func readyToStart(status corev1.ConditionStatus, message string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: status, Message: message, LastTransitionTime: metav1.Now()}}
}

// patch writes into the status as a field manager does.
func (p *worker) patch(ctx context.Context, c client.Client, manager string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}}
	return c.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, raw), client.FieldOwner(manager))
}

// report is the kubelet's own write. The pod's UID keeps it from a successor.
func (p *worker) report(ctx context.Context, status corev1.PodStatus) error {
	return p.patch(ctx, p.client, "kubelet", map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": status})
}

// retry tries until it is done, the pod is gone or another one, or the kubelet ends.
func (p *worker) retry(do func(context.Context) error) {
	for p.ctx.Err() == nil {
		err := do(p.ctx)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) && p.w.pod(p.namespace, p.name, p.uid) == nil {
			return
		}
		if !rested(p.ctx, between(p.rand, time.Second, 5*time.Second)) {
			return
		}
	}
}

// terminate ends the pod in the order that protects its address: containers, CNI DEL, the report, the deletion.
func (p *worker) terminate() {
	pod, _ := p.view()
	if pod != nil && !isTerminal(pod) && len(p.m.of(p.uid)) > 0 {
		p.stopContainers(pod)
	}
	for _, b := range p.m.of(p.uid) {
		for !p.stopBox(b) {
			if !p.wait(5 * time.Second) {
				return
			}
		}
	}
	if pod = p.w.pod(p.namespace, p.name, p.uid); pod != nil {
		status := p.ending()
		if isTerminal(pod) { // by another hand, or before a restart: the phase stays
			status.Phase, status.Conditions = "", readyToStart(corev1.ConditionFalse, "no pod sandbox exists")
		}
		p.retry(func(ctx context.Context) error { return p.report(ctx, status) })
	}
	if !rested(p.ctx, p.jitter(5*time.Second)) {
		return
	}
	for _, b := range p.m.of(p.uid) {
		if !p.m.has(b) { // what was listed since is for the housekeeping
			p.removeBox(b)
		}
	}
	p.remove()
}

func (p *worker) stopContainers(pod *corev1.Pod) {
	most := 5 * time.Second
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		most = min(most, time.Duration(*grace)*time.Second)
	}
	if !rested(p.ctx, p.jitter(most+time.Second)) {
		return
	}
	p.w.mu.Lock()
	for _, b := range p.m.boxes {
		if b.uid == p.uid && !b.unloaded {
			b.running = 0
		}
	}
	p.w.mu.Unlock()
}

// ending is what the kubelet reports last of a pod.
func (p *worker) ending() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: readyToStart(corev1.ConditionFalse, ""),
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "app", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}}}}}
}

// remove deletes the pod once it is to be deleted.
func (p *worker) remove() {
	for p.ctx.Err() == nil {
		pod, known := p.view()
		if known && pod == nil {
			return
		}
		if known && pod.DeletionTimestamp != nil {
			p.retry(func(ctx context.Context) error {
				return p.client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}},
					client.GracePeriodSeconds(0), client.Preconditions{UID: &p.uid})
			})
			return
		}
		if !p.wait(never) {
			return
		}
	}
}

// stopBox stops a sandbox: CNI DEL, then its namespace. False if that has to be tried again, or the kubelet ended before.
func (p *worker) stopBox(b *box) bool {
	p.w.mu.Lock()
	if p.m.broken[StopFails] > 0 && b.ready && b.machine.on {
		p.w.mu.Unlock()
		return false
	}
	b.running, b.creating = 0, false
	isOpen, isLost := b.open, p.w.usage.takeLostDEL(b)
	p.w.mu.Unlock()
	if !isOpen && len(b.addresses) == 0 {
		return p.ctx.Err() == nil
	}
	p.w.usage.end(p.w, b)
	if isLost {
		p.w.note("%s: the DEL of %s is lost", p.m.name, b)
	} else {
		ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
		p.cni.del(ctx, b)
		cancel()
	}
	if p.ctx.Err() != nil {
		return false
	}
	p.w.mu.Lock()
	b.ready, b.open, b.addresses = false, false, nil
	p.w.mu.Unlock()
	return true
}

func (p *worker) removeBox(b *box) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	delete(p.m.boxes, b.id)
}
