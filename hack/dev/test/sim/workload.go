// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func podName(i int) string { return fmt.Sprintf("web-%d", i) }

func (w *World) sortedPods() []*corev1.Pod {
	pods := w.pods()
	var all []*corev1.Pod
	for _, key := range slices.Sorted(maps.Keys(pods)) {
		all = append(all, pods[key].DeepCopy())
	}
	return all
}

// keepPod is a StatefulSet and the scheduler for one pod: there is one of its name, on any node, as soon as the last one is gone.
func (w *World) keepPod(i int) {
	name := podName(i)
	r := w.rand(name)
	c := w.client("workloads", nil)
	changed := w.changes("pod " + namespace + "/" + name)
	for w.ctx.Err() == nil {
		if !rested(w.ctx, between(r, 500*time.Millisecond, 4*time.Second)) || !w.turn(w.ctx, "StatefulSet looks at %s", name) {
			return
		}
		pod := w.pod(namespace, name, "")
		if pod == nil {
			w.createPod(c, name, true)
			continue
		}
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			if node := w.anyNode(r.IntN(1 << 16)); node != "" {
				err := c.SubResource("binding").Create(w.ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
				w.note("%s (%s) is bound to %s: %v", name, pod.UID, node, err)
				continue
			}
		}
		select {
		case <-changed:
		case <-time.After(5 * time.Minute):
		case <-w.ctx.Done():
		}
	}
}

func (w *World) createPod(c client.Client, name string, attached bool) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(30)), Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
	if attached {
		pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": strings.Join(slices.Repeat([]string{network}, w.plan.Networks), ",")}
	}
	if err := c.Create(w.ctx, pod); err != nil {
		w.note("creating %s: %v", name, err)
	}
}

// anyNode is a node that is Ready and has no taint, of those with the fewest pods; empty without one.
func (w *World) anyNode(draw int) string {
	nodes := w.server.All("nodes")
	var fit []string
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		n := w.node(nodes[key].GetName())
		if n != nil && len(n.Spec.Taints) == 0 && n.Labels["clone"] == "" && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			fit = append(fit, n.Name)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	pods := map[string]int{}
	for _, pod := range w.pods() {
		pods[pod.Spec.NodeName]++
	}
	least := slices.MinFunc(fit, func(a, b string) int { return cmp.Compare(pods[a], pods[b]) })
	fit = slices.DeleteFunc(fit, func(name string) bool { return pods[name] > pods[least] })
	return fit[draw%len(fit)]
}

// playEvents does what the plan's user does.
func (w *World) playEvents() {
	c := w.client("user", nil)
	for _, e := range w.plan.Events {
		if !rested(w.ctx, e.At-w.since()) || !w.turn(w.ctx, "the user: %s %s", e.Do, podName(e.Pod)) {
			return
		}
		if e.Do == "interrupt" {
			w.act(func() { w.interrupt(c, podName(e.Pod)) })
			continue
		}
		pod := w.pod(namespace, podName(e.Pod), "")
		if pod == nil {
			continue
		}
		w.note("the user: %s %s (%s)", e.Do, pod.Name, pod.UID)
		switch e.Do {
		case "delete":
			_ = c.Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID})
		case "hurry":
			_ = c.Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID})
			w.act(func() { w.hurry(c, pod) })
		case "complete":
			w.complete(c, pod)
		}
	}
}

// hurries is how many pods in a row a hurried user deletes at most, and patience how long he waits for the next one.
const hurries, patience = 3, 5 * time.Minute

// hurry: a user, or a controller in a loop, deletes the successors of a pod soon after they were bound.
func (w *World) hurry(c client.Client, last *corev1.Pod) {
	r := w.rand("hurry " + string(last.UID))
	for range 1 + r.IntN(hurries) {
		next := w.successor(last)
		if next == nil || !rested(w.ctx, shortly(r)) || !w.turn(w.ctx, "the user is in a hurry with %s", next.Name) {
			return
		}
		w.note("the user deletes %s (%s) soon", next.Name, next.UID)
		_ = c.Delete(w.ctx, next, client.Preconditions{UID: &next.UID})
		last = next
	}
}

// interrupt: a user deletes a pod while its sandbox is being created.
func (w *World) interrupt(c client.Client, name string) {
	r := w.rand(fmt.Sprint("interrupt ", name, w.since()))
	for until := w.since() + patience; w.since() < until && rested(w.ctx, between(r, 100*time.Millisecond, time.Second)); {
		pod := w.pod(namespace, name, "")
		if pod == nil || !w.isBeingMade(pod.UID) {
			continue
		}
		if w.turn(w.ctx, "the user interrupts %s", name) {
			w.note("the user interrupts %s (%s): %v", name, pod.UID, c.Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID}))
		}
		return
	}
}

// isBeingMade says whether a sandbox of a pod has its address, and is not listed yet.
func (w *World) isBeingMade(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		for _, b := range m.boxes {
			if b.uid == uid && b.live && b.creating {
				return true
			}
		}
		return false
	})
}

// successor is the next pod with the name once it is bound; nil if none comes.
func (w *World) successor(last *corev1.Pod) *corev1.Pod {
	for until := w.since() + patience; w.since() < until && rested(w.ctx, time.Second); {
		if pod := w.pod(last.Namespace, last.Name, ""); pod != nil && pod.UID != last.UID && pod.Spec.NodeName != "" {
			return pod
		}
	}
	return nil
}

// complete terminates a pod's containers; its kubelet terminates the pod, and the user deletes it some minutes later.
func (w *World) complete(c client.Client, pod *corev1.Pod) {
	w.mu.Lock()
	w.completed[pod.UID] = true
	w.pokeLocked("node " + pod.Spec.NodeName)
	w.mu.Unlock()
	w.act(func() {
		if rested(w.ctx, between(w.rand("completed "+string(pod.UID)), time.Minute, 8*time.Minute)) && w.turn(w.ctx, "the user deletes %s", pod.Name) {
			_ = c.Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID})
		}
	})
}

func (w *World) all() []*machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.machines)
}
