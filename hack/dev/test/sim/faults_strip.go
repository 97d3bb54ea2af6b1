// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

// The actions of a user who removes the finalizers of a pod, by N. The first write has no statement about the addresses, and a policy refuses it.
const (
	// keptAndStripped: the pod is deleted, its addresses are kept, and the break-glass annotation is used, as kubectl holdfast unhold does.
	keptAndStripped = 1
	// leftAfterStrip: the finalizers of a live pod are removed, and nothing follows; N modulo three.
	leftAfterStrip = 2
	// forcedInVain: the pod is force-deleted with its finalizer.
	forcedInVain = 3
	// givenUpAndStripped: the pod is deleted, and its addresses are given up.
	givenUpAndStripped = 4
	// frozenAfterStrip: as leftAfterStrip, and then its node freezes.
	frozenAfterStrip = 6
	// protectedWithin is how soon a stripped pod is protected again.
	protectedWithin = 20 * time.Second
)

// strip: a user removes the finalizers of a pod.
func (w *World) strip(f Fault) {
	pod := w.target(f)
	if pod == nil {
		return
	}
	c := w.person("person")
	uid := client.Preconditions{UID: &pod.UID}
	if f.N == keptAndStripped || f.N == givenUpAndStripped {
		_ = c.Delete(w.ctx, pod, uid)
	}
	w.note("a person strips %s (%s): %v", pod.Name, pod.UID, w.takeFinalizers(c, pod, nil))
	switch {
	case f.N == keptAndStripped && w.keep(pod) == nil && w.breakGlass(pod, v1alpha1.UnholdKept) == nil:
		w.locked(func() { w.vanished[pod.UID] = pod.Name })
	case f.N == frozenAfterStrip && w.giveUp(pod):
		w.freezeAndForce(f, pod)
	case f.N == givenUpAndStripped || f.N%3 == leftAfterStrip:
		w.giveUpAndLeave(f, pod)
	case f.N == forcedInVain:
		w.note("and force-deletes it: %v", c.Delete(w.ctx, pod, uid, client.GracePeriodSeconds(0)))
	}
}

// glassBreaker is the client of a user with a statement about the addresses.
const glassBreaker = "glass-breaker"

func (w *World) person(name string) client.Client {
	return w.client(name, &user.DefaultInfo{Name: "person", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}})
}

// breakGlass removes the finalizers with a statement about the addresses.
func (w *World) breakGlass(pod *corev1.Pod, statement v1alpha1.UnholdStatement) error {
	err := w.takeFinalizers(w.person(glassBreaker), pod, map[string]string{v1alpha1.UnholdAnnotation: statement.Because("the simulation says so")})
	w.note("a person breaks the glass of %s (%s), its addresses are %s: %v", pod.Name, pod.UID, statement, err)
	return err
}

func (w *World) takeFinalizers(c client.Client, pod *corev1.Pod, annotations map[string]string) error {
	metadata := map[string]any{"finalizers": nil, "uid": pod.UID}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return c.Patch(w.ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, must(json.Marshal(map[string]any{"metadata": metadata}))))
}

// giveUp removes the finalizers of a pod and gives up its addresses. It is false if the pod is not live.
func (w *World) giveUp(pod *corev1.Pod) bool {
	if w.breakGlass(pod, v1alpha1.UnholdGivenUp) != nil {
		return false
	}
	if now := w.pod(pod.Namespace, pod.Name, pod.UID); now != nil && now.DeletionTimestamp == nil {
		return true
	}
	w.locked(func() { w.vanished[pod.UID] = pod.Name })
	w.excuse(pod, "a person gave its addresses up")
	return false
}

// keep does what the plugin does before it removes the finalizers.
func (w *World) keep(pod *corev1.Pod) error {
	c := w.person(glassBreaker)
	now := w.pod(pod.Namespace, pod.Name, pod.UID)
	if now == nil {
		return errors.New("it is gone")
	}
	pools, err := whereabouts.OpenDirect(w.ctx, c, func(int) {})
	if err == nil {
		_, err = finalizer.Keep(w.ctx, c, pools, now)
	}
	w.note("a person keeps the addresses of %s (%s): %v", pod.Name, pod.UID, err)
	return err
}

// giveUpAndLeave leaves a live pod to be protected again.
func (w *World) giveUpAndLeave(f Fault, pod *corev1.Pod) {
	if w.giveUp(pod) {
		w.excuseDisturbed(f, pod)
	}
}

// excuseDisturbed exempts a pod that lost its finalizer if the manager may not protect it again before its deletion.
func (w *World) excuseDisturbed(f Fault, pod *corev1.Pod) {
	if w.isDisturbed(f, managerKinds, "", time.Minute) {
		w.excuse(pod, "its finalizer was stripped while the manager could not protect it again")
	}
}

// freezeAndForce: after the loss of the finalizer the node freezes, and the pod is force-deleted. By then the manager has to have protected it again.
func (w *World) freezeAndForce(f Fault, pod *corev1.Pod) {
	if w.isDisturbed(f, []Kind{DeclaredDead}, pod.Spec.NodeName, f.For) {
		return // an administrator's word about a node that cannot contradict it is believed
	}
	w.excuseDisturbed(f, pod)
	f.Who = pod.Spec.NodeName
	w.after(protectedWithin, func() {
		if f.Who == "" || !w.turn(w.ctx, "the node of %s freezes", pod.Name) {
			return
		}
		w.cutOff(f)
		err := w.client("person", nil).Delete(w.ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		w.note("%s freezes, and a person force-deletes %s (%s): %v", f.Who, pod.Name, pod.UID, err)
	})
}
