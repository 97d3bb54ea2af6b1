// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookInterval is how often the progress of a deletion is read.
const lookInterval = time.Second

// managerLabels select the manager's pods where its Deployment is gone (config/manager/deployment.yaml).
var managerLabels = labels.Set{"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "manager"}

// ourPods select the pods of every part.
var ourPods = labels.Set{"app.kubernetes.io/name": "holdfast"}

// stop scales the manager to 0 and waits until its pods do not exist. If one stays, its account loses its rights.
func (u *uninstallation) stop(ctx context.Context) error {
	selector, err := u.scaleDown(ctx)
	if err != nil {
		return err
	}
	if u.DryRun {
		return nil
	}
	left, err := u.awaitPods(ctx, selector)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		u.print("no pod of the manager runs")
		return nil
	}
	u.print("these pods of the manager are still there, ended or not, so its account loses its rights: %s", strings.Join(left, ", "))
	rights, err := u.find(ctx, bindings, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	return u.remove(ctx, u.withoutWaitRole(rights))
}

// scaleDown scales the manager to 0 and returns the selector of its pods.
func (u *uninstallation) scaleDown(ctx context.Context) (labels.Selector, error) {
	deployment, err := u.manager(ctx)
	if err != nil {
		return nil, err
	}
	if deployment == nil {
		u.print("there is no Deployment %s/%s", u.Namespace, managerName)
		return managerLabels.AsSelector(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of Deployment %s/%s: %w", u.Namespace, managerName, err)
	}
	replicas := *deployment.Spec.Replicas
	switch {
	case replicas == 0:
		u.print("Deployment %s/%s has no replicas", u.Namespace, managerName)
		return selector, nil
	case u.DryRun:
		u.print("Deployment %s/%s would be scaled from %d to 0", u.Namespace, managerName, replicas)
		return selector, nil
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	if err := u.Client.Patch(ctx, deployment, patch); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("scaling Deployment %s/%s to 0: %w", u.Namespace, managerName, err)
	}
	u.print("Deployment %s/%s scaled from %d to 0", u.Namespace, managerName, replicas)
	return selector, nil
}

// manager is the manager's Deployment; nil if there is none.
func (u *uninstallation) manager(ctx context.Context) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := u.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: managerName}, deployment)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", u.Namespace, managerName, err)
	}
	return deployment, nil
}

// awaitPods waits until the pods do not exist, StopTimeout at most, and returns those that do.
func (u *uninstallation) awaitPods(ctx context.Context, selector labels.Selector) ([]string, error) {
	deadline := time.Now().Add(u.StopTimeout)
	for {
		left, running, err := u.managerPods(ctx, selector)
		if err != nil || !running || time.Now().After(deadline) {
			return left, err
		}
		u.progress("waiting for the manager's pods to stop: %s", strings.Join(left, ", "))
		if !rest(ctx, lookInterval) {
			return nil, errors.New("the pods of the manager have not stopped")
		}
	}
}

// managerPods are the manager's pods, each with its node, and whether any of them may still stop. A terminal phase is no proof that its containers
// ended: PodGC writes one for a node that does not respond.
func (u *uninstallation) managerPods(ctx context.Context, selector labels.Selector) (names []string, running bool, err error) {
	var pods corev1.PodList
	if err := u.Client.List(ctx, &pods, client.InNamespace(u.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, false, fmt.Errorf("listing the manager's pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		running = running || pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
		names = append(names, fmt.Sprintf("%s (node %q, %s)", pod.Name, pod.Spec.NodeName, pod.Status.Phase))
	}
	return names, running, nil
}

// removeProtectors deletes what protects pods, every other webhook of ours, and the policies that would refuse the sweep.
func (u *uninstallation) removeProtectors(ctx context.Context) error {
	found, err := u.findProtectors(ctx)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		u.print("there is none")
	}
	return u.remove(ctx, found)
}

func (u *uninstallation) findProtectors(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	found, err := u.find(ctx, protectors, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	refusing, err := u.find(ctx, policies, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	found = append(found, slices.DeleteFunc(refusing, func(o metav1.PartialObjectMetadata) bool { return !slices.Contains(obstacles, o.Name) })...)
	callers, err := u.findCallers(ctx)
	if err != nil {
		return nil, err
	}
	for i := range callers {
		if !slices.ContainsFunc(found, func(o metav1.PartialObjectMetadata) bool { return o.UID == callers[i].UID }) {
			found = append(found, callers[i])
		}
	}
	return found, nil
}
