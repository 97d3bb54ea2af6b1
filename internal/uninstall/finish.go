// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// removeRest removes what nobody needs once no pod is held.
func (u *uninstallation) removeRest(ctx context.Context) error {
	found, err := u.find(ctx, u.restKinds(), u.Namespace, nodeLeases)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		u.say("there is nothing")
	}
	if u.KeepCRDs {
		u.say("CustomResourceDefinitions are kept, and with them IPAllocations and NodeResourcePolicies")
	}
	return u.remove(ctx, found)
}

// restKinds are in the order of removal. The definitions take their objects along.
func (u *uninstallation) restKinds() []schema.GroupVersionKind {
	kinds := slices.Clone(policies)
	if !u.KeepCRDs {
		kinds = append(kinds, definitions)
	}
	return slices.Concat(kinds, bindings, roles)
}

// removeNamespace removes what the namespace holds of ours, and the namespace itself if the installation made it.
func (u *uninstallation) removeNamespace(ctx context.Context) error {
	found, err := u.find(ctx, contents, u.Namespace)
	if err != nil {
		return err
	}
	if err := u.remove(ctx, found); err != nil {
		return err
	}
	if err := u.removePods(ctx); err != nil {
		return err
	}
	own, err := u.findNamespace(ctx)
	if err != nil {
		return err
	}
	if len(own) == 0 {
		u.say("there is no Namespace %s with the label %s=%s; one without it stays", u.Namespace, partOfLabel, partOf)
	}
	return u.remove(ctx, own)
}

// removePods deletes what is left of the manager's pods without waiting for their kubelets: those of a node that is silent would
// keep the namespace for ever, and what runs there has no account any more.
func (u *uninstallation) removePods(ctx context.Context) error {
	var pods corev1.PodList
	if err := u.Client.List(ctx, &pods, client.InNamespace(u.Namespace), client.MatchingLabels(managerLabels)); err != nil {
		return fmt.Errorf("listing the manager's pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if u.DryRun {
			u.say("Pod %s/%s would be deleted", pod.Namespace, pod.Name)
			continue
		}
		err := u.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		u.say("Pod %s/%s deleted, without waiting for the kubelet of node %q", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	return nil
}

// findNamespace gives the manager's namespace if it came with the installation.
func (u *uninstallation) findNamespace(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	namespace := metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(namespaces)
	err := u.Client.Get(ctx, client.ObjectKey{Name: u.Namespace}, &namespace)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Namespace %s: %w", u.Namespace, err)
	}
	namespace.SetGroupVersionKind(namespaces)
	if !isOurs(namespaces, &namespace) {
		return nil, nil
	}
	return []metav1.PartialObjectMetadata{namespace}, nil
}

// verify waits until nothing of an installation is left.
func (u *uninstallation) verify(ctx context.Context) error {
	deadline := time.Now().Add(u.GoneTimeout)
	progress := u.newProgress()
	for {
		left, err := u.findAll(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 || u.DryRun {
			u.say("%s left", count(len(left), "object is", "objects are"))
			return nil
		}
		names := make([]string, 0, len(left))
		for i := range left {
			names = append(names, nameOf(&left[i]))
		}
		if time.Now().After(deadline) {
			return errors.New(u.leftBehind(ctx, names))
		}
		progress.say("still there: %s", strings.Join(names, ", "))
		if !rest(ctx, lookInterval) {
			return ctx.Err()
		}
	}
}

func (u *uninstallation) findAll(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	found, err := u.findStampers(ctx)
	if err != nil {
		return nil, err
	}
	more, err := u.find(ctx, slices.Concat(u.restKinds(), contents), u.Namespace)
	if err != nil {
		return nil, err
	}
	leases, err := u.find(ctx, slices.Concat(bindings[1:], roles[1:]), nodeLeases)
	if err != nil {
		return nil, err
	}
	own, err := u.findNamespace(ctx)
	return slices.Concat(found, more, leases, own), err
}

// leftBehind explains what does not go; a namespace says so itself, in its conditions.
func (u *uninstallation) leftBehind(ctx context.Context, names []string) string {
	text := fmt.Sprintf("no pod has the finalizer, which is proven, but after %s these are still there: %s", u.GoneTimeout, strings.Join(names, ", "))
	var namespace corev1.Namespace
	if err := u.Client.Get(ctx, client.ObjectKey{Name: u.Namespace}, &namespace); err != nil {
		return text
	}
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			text += fmt.Sprintf("; Namespace %s says %s: %s", u.Namespace, c.Type, c.Message)
		}
	}
	return text
}
