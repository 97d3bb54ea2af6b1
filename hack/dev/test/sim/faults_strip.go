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

// What a person does who takes the finalizers off a pod, by N. First comes a write that says nothing of it, which a policy refuses.
const (
	// keptAndStripped: the pod is deleted, its addresses are kept, and the glass is broken, as kubectl holdfast unhold does.
	keptAndStripped = 1
	// leftAfterStrip: the glass of a pod that lives is broken, and nothing follows, if N leaves this remainder by three.
	leftAfterStrip = 2
	// forcedInVain: the pod is force-deleted with its finalizer.
	forcedInVain = 3
	// givenUpAndStripped: the pod is deleted, and the glass is broken by a person who gives its addresses up.
	givenUpAndStripped = 4
	// frozenAfterStrip: as leftAfterStrip, and then its node freezes.
	frozenAfterStrip = 6
	// protectedWithin is when that comes: a stripped pod is protected again within seconds.
	protectedWithin = 20 * time.Second
)

// strip is a person who takes the finalizers off a pod.
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

// glassBreaker is the client of a person who says what becomes of the addresses.
const glassBreaker = "glass-breaker"

func (w *World) person(name string) client.Client {
	return w.client(name, &user.DefaultInfo{Name: "person", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}})
}

// breakGlass takes the finalizers off with a statement about the addresses.
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

// giveUp breaks the glass of a pod and lets others have its addresses. It is false if the pod does not live on.
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

// keep is what the plugin does before it breaks the glass.
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

// giveUpAndLeave leaves a pod that lives on to the guard.
func (w *World) giveUpAndLeave(f Fault, pod *corev1.Pod) {
	if w.giveUp(pod) {
		w.excuseDisturbed(f, pod)
	}
}

// excuseDisturbed excuses a pod that lost its finalizer where the manager may not protect it again before it is deleted.
func (w *World) excuseDisturbed(f Fault, pod *corev1.Pod) {
	if w.isDisturbed(f, managerKinds, "", time.Minute) {
		w.excuse(pod, "its finalizer was stripped while the manager could not protect it again")
	}
}

// freezeAndForce is what follows a lost finalizer that nobody noticed: the node freezes, and the pod is force-deleted. By then the guard is to have
// protected it again.
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
