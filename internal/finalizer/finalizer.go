// SPDX-License-Identifier: Apache-2.0

// Package finalizer is the one way in which Holdfast's finalizer and label get onto a pod and off it. Every patch carries the
// pod's UID and touches only our own entries.
package finalizer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// FieldManager is the field manager of every write of the manager.
const FieldManager = "holdfast-manager"

// Way is how the finalizer came off.
type Way string

// The ways.
const (
	// WayPatch: a patch of the pod.
	WayPatch Way = "patch"
	// WayStatus: a patch of pods/status, because something made every patch of the pod fail (kubernetes#109164).
	WayStatus Way = "status"
	// WayGone: there was nothing to take off: no pod, another UID under the name, or no finalizer of ours.
	WayGone Way = "gone"
)

// Pod names a pod object by all that identifies it.
type Pod struct {
	Namespace, Name string
	UID             types.UID
}

// String is for messages.
func (p Pod) String() string { return fmt.Sprintf("pod %s/%s (uid %s)", p.Namespace, p.Name, p.UID) }

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// Client takes the finalizer off and puts it on.
type Client struct {
	// Writer writes pods.
	Writer client.Client
	// Reader reads past every cache.
	Reader client.Reader
	// FieldManager is that of the writes; the manager's by default.
	FieldManager string
}

// Remove takes our finalizer off the pod of that UID. The object may vanish with it. Errors are worth another try.
func (c Client) Remove(ctx context.Context, pod Pod) (Way, error) {
	return c.apply(ctx, pod, takeOff, map[string]any{"uid": pod.UID, deleteFinalizer: []string{v1alpha1.Finalizer}})
}

// Unprotect takes finalizer and label off a pod that lives on without them.
func (c Client) Unprotect(ctx context.Context, pod Pod) (Way, error) {
	return c.apply(ctx, pod, takeOff, map[string]any{"uid": pod.UID, deleteFinalizer: []string{v1alpha1.Finalizer},
		"labels": map[string]any{v1alpha1.GuardedLabel: nil}})
}

// Unhold is Remove for a user who may unhold the pod: the policy holdfast-finalizer requires the statement about its addresses in the same write. The
// label stays, so that a manager follows the pod to its end.
func (c Client) Unhold(ctx context.Context, pod Pod, statement string) (Way, error) {
	return c.apply(ctx, pod, takeOff, map[string]any{"uid": pod.UID, deleteFinalizer: []string{v1alpha1.Finalizer},
		"annotations": map[string]string{v1alpha1.UnholdAnnotation: statement}})
}

// GiveUp is Unprotect for a user who may unhold the pod, where no manager will follow it.
func (c Client) GiveUp(ctx context.Context, pod Pod, reason string) (Way, error) {
	return c.apply(ctx, pod, takeOff, map[string]any{"uid": pod.UID, deleteFinalizer: []string{v1alpha1.Finalizer},
		"labels": map[string]any{v1alpha1.GuardedLabel: nil}, "annotations": map[string]string{v1alpha1.UnholdAnnotation: v1alpha1.UnholdGivenUp.Because(reason)}})
}

// deleteFinalizer is the strategic merge directive that takes single entries off metadata.finalizers.
const deleteFinalizer = "$deleteFromPrimitiveList/finalizers"

const takeOff = "taking the finalizer " + v1alpha1.Finalizer + " off"

// apply patches a pod's metadata; through pods/status where that fails for what others make of pod updates.
func (c Client) apply(ctx context.Context, pod Pod, what string, metadata map[string]any) (Way, error) {
	patch := map[string]any{"metadata": metadata}
	err := c.patch(ctx, pod, patch)
	if err == nil {
		return WayPatch, nil
	}
	if gone, readErr := c.gone(ctx, pod, err); gone || readErr != nil {
		return WayGone, readErr
	}
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsInternalError(err) && !apierrors.IsBadRequest(err) && !errors.Is(err, errPutBack) {
		return "", fmt.Errorf("%s %s: %w", what, pod, err)
	}
	statusErr := c.patch(ctx, pod, patch, "status")
	if statusErr == nil {
		return WayStatus, nil
	}
	if gone, readErr := c.gone(ctx, pod, statusErr); gone || readErr != nil {
		return WayGone, readErr
	}
	return "", fmt.Errorf("%s %s failed (%w), and so did the same patch through pods/status: %w", what, pod, err, statusErr)
}

// Add puts finalizer and label on a pod that the webhook missed. It fails on a pod that is being deleted, as it must:
// finalizers can only be added before.
func (c Client) Add(ctx context.Context, pod Pod) error {
	err := c.patch(ctx, pod, map[string]any{"metadata": map[string]any{
		"uid":        pod.UID,
		"finalizers": []string{v1alpha1.Finalizer},
		"labels":     map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
	}})
	if err != nil {
		return fmt.Errorf("protection %s late: %w", pod, err)
	}
	return nil
}

// Relabel puts the label back on a pod that still carries the finalizer.
func (c Client) Relabel(ctx context.Context, pod Pod) error {
	_, err := c.apply(ctx, pod, "putting the label "+v1alpha1.GuardedLabel+" back on", map[string]any{
		"uid":    pod.UID,
		"labels": map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
	})
	return err
}

func (c Client) patch(ctx context.Context, pod Pod, body map[string]any, subresource ...string) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	raw, owner := client.RawPatch(types.StrategicMergePatchType, data), client.FieldOwner(cmp.Or(c.FieldManager, FieldManager))
	if len(subresource) > 0 {
		err = c.Writer.SubResource(subresource[0]).Patch(ctx, target, raw, owner)
	} else {
		err = c.Writer.Patch(ctx, target, raw, owner)
	}
	if _, takesOff := body["metadata"].(map[string]any)[deleteFinalizer]; err == nil && takesOff && controllerutil.ContainsFinalizer(target, v1alpha1.Finalizer) {
		return errPutBack
	}
	return err
}

var errPutBack = errors.New("the API server accepted the patch, and the finalizer is still there: another webhook puts it back")

// gone reports, by a live read, whether there is nothing left to remove after a failed patch.
func (c Client) gone(ctx context.Context, pod Pod, patchErr error) (bool, error) {
	if apierrors.IsNotFound(patchErr) {
		return true, nil
	}
	var live metav1.PartialObjectMetadata
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := c.Reader.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, &live)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading %s after the patch failed (%w): %w", pod, patchErr, err)
	}
	return live.UID != pod.UID || !controllerutil.ContainsFinalizer(&live, v1alpha1.Finalizer), nil
}
