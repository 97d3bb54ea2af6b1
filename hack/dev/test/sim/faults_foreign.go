// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbtypes "github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/reconciler"
)

// reconcile is one run of whereabouts' own reconciler.
func (w *World) reconcile(Fault) {
	config, _ := w.restConfig("reconciler", account(metav1.NamespaceSystem, "whereabouts-reconciler", "reconciler", "reconciler", "", ""))
	freed, err := reconciler.Run(w.ctx, config)
	w.note("the reconciler freed %v: %v", freed, err)
}

// collectEntries is whereabouts' control loop on a node: after a pod is deleted it frees each entry with the pod's name, unless a pod of that name is
// live. It has the token of CNI DEL, from which it cannot be distinguished (docs/limits.md).
func (w *World) collectEntries(f Fault) {
	m, name := w.at(f), podName(f.Pod)
	if pod := w.pod(namespace, name, ""); pod != nil && pod.DeletionTimestamp == nil || !m.isOn() || m.kubelet == nil {
		return
	}
	for _, pool := range w.server.All("ippools") {
		for _, e := range entriesOf(pool.Object) {
			if e.podRef != namespace+"/"+name || !w.turn(w.ctx, "the control loop of %s frees %s", m.name, e.address) {
				continue
			}
			w.locked(func() { w.faults[ControlLoop]++ })
			before := w.excuseBox(e, "the control loop of a node freed its entry with the token of CNI DEL")
			_, err := m.kubelet.cni.manage(w.ctx, wbtypes.Deallocate, &box{id: e.sandbox, namespace: namespace, name: name}, e.device)
			if w.hasEntry(&box{id: e.sandbox}, e.address) {
				w.excuseBox(e, before) // it was refused; the entry of the sandbox's other address may have been freed
			}
			w.note("the control loop of %s frees %s of %s: %v", m.name, e.address, e.podRef, err)
		}
	}
}

// excuseBox exempts the sandbox of an entry from the checks, or ends that, and returns why it was exempt before.
func (w *World) excuseBox(e entry, why string) (before string) {
	w.locked(func() {
		for _, b := range w.usage.users[e.address] {
			if b.live && b.id == e.sandbox {
				before, b.excuse = b.excuse, why
			}
		}
	})
	return before
}

func (w *World) forceDelete(f Fault) {
	if pod := w.target(f); pod != nil {
		err := w.client("person", nil).Delete(w.ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		w.note("a person force-deletes %s (%s): %v", pod.Name, pod.UID, err)
	}
}

// forge: a tenant writes the termination of a pod, as the kubelet or, with an even N, under another field manager.
func (w *World) forge(f Fault) {
	pod := w.target(f)
	if pod == nil {
		return
	}
	c := w.client("forger", account(namespace, "multus-like", "", "", "", ""))
	_ = w.client("person", nil).Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID})
	patch := client.RawPatch("application/strategic-merge-patch+json", []byte(`{"status":{"phase":"Succeeded","conditions":[{"type":"PodReadyToStartContainers",`+
		`"status":"False","message":"no pod sandbox exists","lastTransitionTime":"`+time.Now().UTC().Format(time.RFC3339)+`"}]}}`))
	manager := "kubelet"
	if f.N%2 == 0 {
		manager = "kubectl-patch"
	}
	err := c.Status().Patch(w.ctx, pod, patch, client.FieldOwner(manager))
	w.note("a forger ends %s (%s) as %s: %v", pod.Name, pod.UID, manager, err)
}

// annotate: a tenant writes false annotations into a pod.
func (w *World) annotate(f Fault) {
	pod := w.target(f)
	if pod == nil {
		return
	}
	status := `[{"name":"apps/blue","interface":"net1","ips":["10.0.0.2"],"dns":{}}]`
	if f.N%2 == 0 {
		status = ""
	}
	patch := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, networkStatus, status)
	err := w.client("tenant", account(namespace, "default", "", "", "", "")).Patch(context.Background(), pod, patch)
	w.note("a tenant annotates %s: %v", pod.Name, err)
}

// restoreEntry: a user writes a further entry of a sandbox without an owner into its pool, as from a backup: it names no pod.
func (w *World) restoreEntry(f Fault) {
	for until := w.since() + f.For; w.since() < until; {
		if !rested(w.ctx, time.Second) || !w.turn(w.ctx, "a person compares the pools with a copy") {
			return
		}
		records := w.server.All("ipallocations")
		for _, name := range slices.Sorted(maps.Keys(records)) {
			sandbox, isOrphan := strings.CutPrefix(records[name].GetName(), v1alpha1.OrphanPrefix)
			if isOrphan && w.addEntry(sandbox) {
				w.locked(func() { w.faults[EntryRestored]++ })
				return
			}
		}
	}
}

// addEntry writes an entry at an address that is free.
func (w *World) addEntry(sandbox string) bool {
	const offset = 14 // the last of the range
	for name, pool := range w.server.All("ippools") {
		if slices.ContainsFunc(entriesOf(pool.Object), func(e entry) bool { return e.offset == strconv.Itoa(offset) }) {
			return false
		}
		value := must(json.Marshal(wbv1alpha1.IPAllocation{ContainerID: sandbox, IfName: devices[0]}))
		patch := fmt.Sprintf(`[{"op":"add","path":"/spec/allocations/%d","value":%s}]`, offset, value)
		err := w.client("person", nil).Patch(w.ctx, refer(wbv1alpha1.SchemeGroupVersion.WithKind("IPPool"), name), client.RawPatch(types.JSONPatchType, []byte(patch)))
		w.note("a person restores the entry %d of %s in pool %s: %v", offset, sandbox, name, err)
		return err == nil
	}
	return false
}
