// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorLooks is how long after the healing a user handles the remaining waits.
const operatorLooks = 30 * time.Minute

// looksAgain is the time until the user checks again, because another wait may have begun.
const looksAgain = 8 * time.Minute

// forAPerson are the waits that a user has to end by docs/runbook/reasons, and forAPersonMoved those for which that applies if the Node object of the
// pod's node was replaced.
const forAPerson = "ClaimantUnknown"

var forAPersonMoved = []string{"MachineUnknown", "SandboxRunning"}

// forAPersonCloned are those for which two machines have the same identity, and the sandbox was on the copy.
var forAPersonCloned = []string{"ClaimedTwice", "its machine is registered as node", "the Node object is gone, but the last report of the agent"}

// forASwitch are those for which, without agents, the runbook tells the user to switch the machine off and taint its node out-of-service.
var forASwitch = []string{"KubeletNotFinished", "MayBeStarting"}

// staysOff is how long a machine that was switched off for its taint stays so.
const staysOff = 5 * time.Minute

// operate is a user who follows the runbook: no address of a running sandbox is released, and none of a node that kept its Node object.
func (w *World) operate() {
	for after := operatorLooks; rested(w.ctx, after) && w.turn(w.ctx, "the operator looks at what waits"); after = looksAgain {
		w.endWaits()
	}
}

// endWaits ends the waits that a user has to end.
func (w *World) endWaits() {
	records := w.server.All("ipallocations")
	for _, name := range slices.Sorted(maps.Keys(records)) {
		waits := func(reason string) bool { return strings.Contains(conditionsOf(records[name]), reason) }
		if waits(forAPerson) || w.plan.Unowned && slices.ContainsFunc(forAPersonCloned, waits) || slices.ContainsFunc(forAPersonMoved, waits) && w.movedUnder(records[name]) {
			w.releaseByHand(records[name])
		}
		if slices.ContainsFunc(forAReplacement, waits) {
			w.replaceRivals(name, records)
		}
		if w.standsInTheWay(name, records[name]) {
			w.deleteRecord(records[name])
		}
	}
	if !w.plan.Agents {
		w.switchOffWaiting(records)
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(records)), func(record *unstructured.Unstructured) bool {
		return w.plan.Unowned && strings.Contains(conditionsOf(record), "shows no address yet")
	}) {
		w.replacePodsWithoutStatus()
	}
}

// switchOffWaiting switches off the machines of the nodes for which a record, or a pod that never had an address, waits.
func (w *World) switchOffWaiting(records objects) {
	off := map[string]bool{}
	for _, record := range records {
		waits := func(reason string) bool { return strings.Contains(conditionsOf(record), reason) }
		off[nodeNameOf(record)] = off[nodeNameOf(record)] || slices.ContainsFunc(forASwitch, waits)
	}
	for _, pod := range w.pods() {
		waits := func(c corev1.PodCondition) bool { return slices.Contains(forASwitch, c.Reason) }
		off[pod.Spec.NodeName] = off[pod.Spec.NodeName] || pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, waits)
	}
	for _, node := range slices.Sorted(maps.Keys(off)) {
		if off[node] && node != "" {
			w.switchOff(w.at(Fault{Who: node}))
		}
	}
}

// standsInTheWay says whether the record is of an orphan with an unknown owner whose address another sandbox has by now, and no machine runs the
// orphan. Without agents, or if a clone that is gone claimed it, both are held until a user deletes the record (docs/runbook/reasons/waits.md).
func (w *World) standsInTheWay(name string, record *unstructured.Unstructured) bool {
	state, _, _ := unstructured.NestedString(record.Object, "status", "state")
	name = strings.TrimPrefix(name, "/")
	sandbox, isOrphan := strings.CutPrefix(name, orphanPrefix)
	w.mu.Lock()
	defer w.mu.Unlock()
	return isOrphan && state == "Conflict" && (w.plan.Unowned || w.isAloneLocked(name)) && w.liveBoxesLocked()[sandbox] == nil
}

// deleteRecord follows the refusal of the policy.
func (w *World) deleteRecord(record *unstructured.Unstructured) {
	c := w.client("operator", nil)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/break-glass":"no machine runs it"}}}`))
	err := c.Patch(w.ctx, record.DeepCopy(), patch)
	if err == nil {
		err = c.Delete(w.ctx, record.DeepCopy())
	}
	w.note("no machine runs the sandbox of %s, and the operator deletes it: %v", record.GetName(), err)
	w.locked(func() { w.byHand++ })
}

// forAReplacement are the waits for which the runbook tells the user to replace a pod.
var forAReplacement = []string{" Conflict:", " AddressShown:"}

// replaceRivals deletes live pods whose records share an address with a record.
func (w *World) replaceRivals(name string, records objects) {
	for _, other := range slices.Sorted(maps.Keys(records)) {
		podNamespace, _, _ := unstructured.NestedString(records[other].Object, "spec", "podNamespace")
		podName, _, _ := unstructured.NestedString(records[other].Object, "spec", "podName")
		pod := w.pod(podNamespace, podName, types.UID(strings.TrimPrefix(other, "/")))
		isRival := slices.ContainsFunc(addressesOf(records[other]), func(ip string) bool { return slices.Contains(addressesOf(records[name]), ip) })
		if other != name && isRival && pod != nil && pod.DeletionTimestamp == nil {
			err := w.client("operator", nil).Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID})
			w.note("the operator replaces %s (%s): %v", pod.Name, pod.UID, err)
		}
	}
}

func addressesOf(record *unstructured.Unstructured) []string {
	addresses, _, _ := unstructured.NestedSlice(record.Object, "spec", "addresses")
	var all []string
	for _, one := range addresses {
		address, _ := one.(map[string]any)
		all = append(all, fmt.Sprint(address["ip"]))
	}
	return all
}

// switchOff stops a machine, taints its node, and boots it later.
func (w *World) switchOff(m *machine) {
	if !m.isOn() {
		return
	}
	w.note("the operator switches %s off", m.name)
	m.off()
	w.lose(m)
	w.act(func() {
		if !rested(w.ctx, time.Minute) || !w.turn(w.ctx, "the operator taints %s", m.node) {
			return
		}
		w.taint(m.node)
		if rested(w.ctx, staysOff) {
			w.boot(m)
		}
	})
}

func nodeNameOf(record *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(record.Object, "spec", "nodeName")
	return name
}

// movedUnder says whether the Node object of a record's node was made after its pod was bound, or after the record of an orphan was.
func (w *World) movedUnder(record *unstructured.Unstructured) bool {
	at := record.GetCreationTimestamp().Time
	if bound, _, _ := unstructured.NestedString(record.Object, "spec", "scheduledTime"); bound != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, bound); err != nil {
			return false
		}
	}
	node := w.node(nodeNameOf(record))
	return node != nil && node.CreationTimestamp.After(at)
}

// releaseByHand does what kubectl holdfast release does, for each entry of a record that no machine uses: it writes the audit log, and removes the entry
// and its reservation.
func (w *World) releaseByHand(record *unstructured.Unstructured) {
	w.mu.Lock()
	live := w.liveBoxesLocked()
	w.mu.Unlock()
	addresses, _, _ := unstructured.NestedSlice(record.Object, "spec", "addresses")
	var deeds []map[string]any
	for _, one := range addresses {
		address, _ := one.(map[string]any)
		sandbox, _ := address["sandboxID"].(string)
		if live[sandbox] == nil && !w.isUsedBy(live, fmt.Sprint(address["pool"]), sandbox, fmt.Sprint(address["ip"])) {
			deeds = append(deeds, map[string]any{"time": metav1.Now(), "user": "operator", "reason": "no machine runs it", "address": address["ip"],
				"pool": address["pool"], "sandboxID": sandbox})
		}
	}
	c := w.client("operator", account("holdfast-system", "holdfast-manager", "", "", "", ""))
	text := must(json.Marshal(deeds))
	patch := must(json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"holdfast.dev/released-by-hand": string(text)}}}))
	err := c.Patch(w.ctx, refer(record.GroupVersionKind(), "/"+record.GetName()), client.RawPatch(types.MergePatchType, patch))
	w.note("the operator releases %s: %v", text, err)
	for _, deed := range deeds {
		w.removeEntry(c, fmt.Sprint(deed["pool"]), fmt.Sprint(deed["sandboxID"]))
		w.locked(func() { w.byHand++ })
	}
}

// isUsedBy says whether a live sandbox uses the address of an entry that stands for another one.
func (w *World) isUsedBy(live map[string]*box, pool, sandbox, ip string) bool {
	object := w.server.All("ippools")[pool]
	return object != nil && slices.ContainsFunc(entriesOf(object.Object), func(e entry) bool { return e.sandbox == sandbox && e.address == ip }) &&
		slices.ContainsFunc(slices.Collect(maps.Values(live)), func(b *box) bool { return slices.Contains(b.addresses, ip) })
}

// removeEntry removes the entry of a sandbox from a pool.
func (w *World) removeEntry(c client.Client, pool, sandbox string) {
	stands := w.server.All("ippools")[pool]
	if stands == nil {
		return
	}
	group := schema.GroupVersion{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1"}
	for _, e := range entriesOf(stands.Object) {
		if e.sandbox != sandbox {
			continue
		}
		path := "/spec/allocations/" + e.offset
		patch := fmt.Sprintf(`[{"op":"test","path":%[1]q,"value":%[3]q},{"op":"remove","path":%[2]q}]`, path+"/id", path, sandbox)
		if err := c.Patch(w.ctx, refer(group.WithKind("IPPool"), pool), client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
			w.note("releasing %s: %v", e.address, err)
			continue
		}
		_ = c.Delete(context.Background(), refer(group.WithKind("OverlappingRangeIPReservation"), metav1.NamespaceSystem+"/"+e.address))
	}
}

// refer is an object by namespace/name.
func refer(kind schema.GroupVersionKind, key string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	namespace, name, _ := strings.Cut(key, "/")
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
