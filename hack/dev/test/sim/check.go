// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The strings of Holdfast in Kubernetes objects, so that a checker does not use those of the product.
const (
	guardFinalizer = "holdfast.dev/ip-allocation"
	guardLabel     = "holdfast.dev/guarded"
	orphanPrefix   = "orphan-"
	// tombstonePrefix precedes the record's name in the podref of a tombstone.
	tombstonePrefix = "holdfast-releasing/"
)

// checkEnd judges the state once everything is healed and quiet.
func (w *World) checkEnd() {
	pods, pools, records := w.pods(), w.server.All("ippools"), w.server.All("ipallocations") // the server's lock comes first
	nodes, guarded := w.server.All("nodes"), w.server.All("guardednodes")
	w.mu.Lock()
	defer w.mu.Unlock()
	live := w.liveBoxesLocked()
	held := map[string]bool{}
	for key, pod := range pods {
		if pod.Namespace != namespace {
			continue
		}
		held[tombstonePrefix+string(pod.UID)] = !w.completed[pod.UID] // nothing of a live pod is released (docs/limits.md)
		if pod.DeletionTimestamp != nil {
			held[key] = true
			w.violateLocked("liveness", "pod %s (%s) is still being deleted: finalizers %v, %s", key, pod.UID, pod.Finalizers, why(records, string(pod.UID)))
		}
		w.checkPodLocked(pod, live)
	}
	w.checkEntriesLocked(pools, records, pods, live, held)
	w.checkRecordsLocked(records, pods)
	w.checkNodesLocked(nodes, guarded)
}

// isQuiet says whether a judgment would find nothing.
func (w *World) isQuiet() bool {
	found, trace := len(w.found), len(w.trace)
	w.checkEnd()
	w.mu.Lock()
	defer w.mu.Unlock()
	quiet := len(w.found) == found
	w.found, w.trace = w.found[:found], w.trace[:trace]
	return quiet
}

func (w *World) liveBoxesLocked() map[string]*box {
	live := map[string]*box{}
	for _, m := range w.machines {
		for id, b := range m.boxes {
			if b.live {
				live[id] = b
			}
		}
	}
	return live
}

// checkPodLocked: a pod that uses an address is protected, and one without a network is unchanged.
func (w *World) checkPodLocked(pod *corev1.Pod, live map[string]*box) {
	isGuarded := slices.Contains(pod.Finalizers, guardFinalizer)
	if len(pod.Annotations["k8s.v1.cni.cncf.io/networks"]) == 0 {
		if isGuarded || pod.Labels[guardLabel] != "" {
			w.violateLocked("transparency", "pod %s names no network, and has %v %v", pod.Name, pod.Finalizers, pod.Labels)
		}
		return
	}
	for _, b := range live {
		if b.uid == pod.UID && b.excuse == "" && pod.DeletionTimestamp == nil && !isGuarded {
			w.violateLocked("accounting", "pod %s (%s) uses %s and is not protected", pod.Name, pod.UID, b.addresses)
		}
	}
}

// checkEntriesLocked: every entry is of a live sandbox, and every live sandbox has one.
func (w *World) checkEntriesLocked(pools, records objects, pods map[string]*corev1.Pod, live map[string]*box, held map[string]bool) {
	used := map[string]bool{}
	for _, pool := range pools {
		for _, e := range entriesOf(pool.Object) {
			used[e.address+" "+e.sandbox] = true
			if w.isHeldForeverLocked(e.sandbox, records) {
				continue
			}
			if live[e.sandbox] == nil && !held[e.podRef] && !w.completedLocked(pods[e.podRef]) {
				w.violateLocked("liveness", "%s is still taken by %s (sandbox %.8s), and no sandbox uses it: %s", e.address, e.podRef, e.sandbox, why(records, e.sandbox))
			}
		}
	}
	for _, b := range live {
		for _, address := range b.addresses {
			if b.excuse == "" && b.machine.dead == "" && !used[address+" "+b.id] {
				w.violateLocked("accounting", "%s has no entry of %s", b, address)
			}
		}
	}
}

// isAloneLocked: without agents no node can be queried about an orphan, or about a pod that vanished, and its record stands until a user releases its
// address (docs/limits.md, docs/decisions/0115). A sandbox may be an orphan only if its owner cannot be known.
func (w *World) isAloneLocked(record string) bool {
	sandbox, isOrphan := strings.CutPrefix(record, orphanPrefix)
	return !w.plan.Agents && (isOrphan && w.usage.strays[sandbox] != "" || w.vanished[types.UID(record)] != "")
}

// isHeldForeverLocked says whether the record of a sandbox is such a record.
func (w *World) isHeldForeverLocked(sandbox string, records objects) bool {
	for name, record := range records {
		raw, _ := record.MarshalJSON()
		if strings.Contains(string(raw), sandbox) && w.isAloneLocked(strings.TrimPrefix(name, "/")) {
			return true
		}
	}
	return false
}

// completedLocked: the entry is of a pod that still exists, and whose sandbox may just have been removed.
func (w *World) completedLocked(pod *corev1.Pod) bool { return pod != nil && w.completed[pod.UID] }

// checkRecordsLocked: a record is of a pod that exists.
func (w *World) checkRecordsLocked(records objects, pods map[string]*corev1.Pod) {
	uids := map[string]bool{}
	for _, pod := range pods {
		uids[string(pod.UID)] = true
	}
	for name, record := range records {
		if name = strings.TrimPrefix(name, "/"); !uids[name] && !w.isAloneLocked(name) {
			w.violateLocked("liveness", "record %s stands for nothing: %s", name, conditionsOf(record))
		}
	}
}

// checkNodesLocked: each Node has an object with its machine first, without a successor and not gone.
func (w *World) checkNodesLocked(nodes, guarded objects) {
	for name, node := range nodes {
		reported, _, _ := unstructured.NestedString(node.Object, "status", "nodeInfo", "machineID")
		var newest map[string]any
		if o := guarded["/"+string(node.GetUID())]; o != nil {
			machines, _, _ := unstructured.NestedSlice(o.Object, "spec", "machines")
			newest, _ = machines[0].(map[string]any)
		}
		if newest["machineID"] != reported || newest["gone"] != nil || newest["successorUID"] != nil {
			w.violateLocked("accounting", "node %s (%s) reports machine %s, and its GuardedNode has %v", strings.TrimPrefix(name, "/"), node.GetUID(), reported, newest)
		}
	}
}

// objects are those of a resource, by namespace/name.
type objects = map[string]*unstructured.Unstructured

// why is the reason that the product reports for a pod or a sandbox.
func why(records objects, about string) string {
	var found []string
	for name, record := range records {
		raw, _ := record.MarshalJSON()
		if strings.Contains(name, about) || strings.Contains(string(raw), about) {
			found = append(found, fmt.Sprintf("record %s: %s", strings.TrimPrefix(name, "/"), conditionsOf(record)))
		}
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}

func conditionsOf(record *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(record.Object, "status", "conditions")
	var found []string
	for _, c := range conditions {
		one, _ := c.(map[string]any)
		found = append(found, fmt.Sprintf("%v=%v %v: %v", one["type"], one["status"], one["reason"], one["message"]))
	}
	return strings.Join(found, ", ")
}
