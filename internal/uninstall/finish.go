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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// removeRest deletes what is not needed once no pod is held.
func (u *uninstallation) removeRest(ctx context.Context) error {
	found, err := u.find(ctx, u.restKinds(), metav1.NamespaceAll)
	if err != nil {
		return err
	}
	found = u.withoutWaitRole(found)
	if len(found) == 0 {
		u.print("there is nothing")
	}
	if u.KeepCRDs {
		u.print("CustomResourceDefinitions are kept, and with them IPAllocations and NodeResourcePolicies")
	}
	return u.remove(ctx, found)
}

// withoutWaitRole leaves out the rights with which pods of other components start.
func (u *uninstallation) withoutWaitRole(found []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	return slices.DeleteFunc(found, func(o metav1.PartialObjectMetadata) bool {
		isSpared := u.isWaitedFor && o.Name == waitRole
		if isSpared {
			u.print("%s %s is kept: an init container of a DaemonSet runs %s", o.Kind, o.Name, waitCommand)
		}
		return isSpared
	})
}

// restKinds are in the order of removal. The API server deletes the objects of a definition with it.
func (u *uninstallation) restKinds() []schema.GroupVersionKind {
	kinds := slices.Clone(policies)
	if !u.KeepCRDs {
		kinds = append(kinds, definitions)
	}
	return slices.Concat(kinds, bindings, roles, flows)
}

// removeNamespace deletes our objects in the namespaces of the manager and of the agents, and every namespace of the installation. One with objects of
// others stays.
func (u *uninstallation) removeNamespace(ctx context.Context) error {
	found, err := u.findContents(ctx)
	if err != nil {
		return err
	}
	if err := u.remove(ctx, found); err != nil {
		return err
	}
	if err := u.removePods(ctx, u.Namespace); err != nil {
		return err
	}
	own, err := u.findNamespaces(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(u.sparedNamespaces, u.Namespace) && !slices.ContainsFunc(own, func(n metav1.PartialObjectMetadata) bool { return n.Name == u.Namespace }) {
		u.print("there is no Namespace %s with the label %s=%s; one without it stays", u.Namespace, partOfLabel, partOf)
	}
	return u.remove(ctx, own)
}

// findContents finds our objects in the namespaces of the manager and of the agents.
func (u *uninstallation) findContents(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	found, err := u.find(ctx, contents, u.Namespace)
	if err != nil || u.Namespace == agentName {
		return found, err
	}
	agents, err := u.find(ctx, contents, agentName)
	return slices.Concat(found, agents), err
}

// removePods deletes our remaining pods without waiting for their kubelets: a node that does not respond would keep the namespace for ever, and
// what runs there has no account any more.
func (u *uninstallation) removePods(ctx context.Context, namespace string) error {
	var pods corev1.PodList
	if err := u.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(ourPods)); err != nil {
		return fmt.Errorf("listing our pods in namespace %s: %w", namespace, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if u.DryRun {
			u.print("Pod %s/%s would be deleted", pod.Namespace, pod.Name)
			continue
		}
		err := u.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		u.print("Pod %s/%s deleted, without waiting for the kubelet of node %q", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	return nil
}

// findNamespaces returns the namespaces of the installation, but not those that contain objects of others.
func (u *uninstallation) findNamespaces(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	all, err := u.list(ctx, namespaces, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	return u.spared(ctx, slices.DeleteFunc(all, func(n metav1.PartialObjectMetadata) bool {
		return !isOurs(namespaces, &n) || n.Name != u.Namespace && !strings.HasPrefix(n.Name, prefix)
	}))
}

// verify waits until no object of an installation is left.
func (u *uninstallation) verify(ctx context.Context) error {
	began, forced := time.Now(), false
	for look := 0; ; look++ {
		back, err := u.proveAgain(ctx)
		if back {
			began, forced = time.Now(), false
		}
		protecting, err1 := u.findProtectors(ctx)
		others, err2 := u.find(ctx, u.restKinds(), metav1.NamespaceAll)
		inside, err3 := u.findContents(ctx)
		own, err4 := u.findNamespaces(ctx)
		if err := errors.Join(err, err1, err2, err3, err4); err != nil {
			return err
		}
		left := slices.Concat(protecting, others, inside, own)
		if len(left) == 0 || u.DryRun {
			u.print("%s left", count(len(left), "object is", "objects are"))
			return u.lastLook(ctx)
		}
		names := namesOf(left)
		if time.Since(began) > goneTimeout {
			return errors.New(u.leftBehind(ctx, names))
		}
		if !forced && time.Since(began) > u.StopTimeout {
			forced = true
			if err := u.removeAllPods(ctx, left); err != nil {
				return err
			}
		}
		if look%touchLooks == touchLooks/2 {
			u.touchDefinitions(ctx, left)
		}
		u.progress("still there: %s", strings.Join(names, ", "))
		if !rest(ctx, lookInterval) {
			return ctx.Err()
		}
	}
}

func namesOf(objects []metav1.PartialObjectMetadata) []string {
	names := make([]string, 0, len(objects))
	for i := range objects {
		names = append(names, nameOf(&objects[i]))
	}
	return names
}

// proveAgain makes the proof anew if what protects pods was applied again after it, and removes all that came with it.
func (u *uninstallation) proveAgain(ctx context.Context) (back bool, err error) {
	if u.DryRun {
		return false, nil
	}
	if back, err = u.removeWhatCameBack(ctx); back {
		u.proven = false
	}
	if err != nil || !back {
		return back, err
	}
	if err := u.sweep(ctx); err != nil {
		return true, err
	}
	return true, errors.Join(u.removeRest(ctx), u.removeNamespace(ctx))
}

const (
	// touchLooks is the number of looks between two touches of a definition that is being deleted.
	touchLooks        = 10
	touchedAnnotation = "holdfast.dev/uninstall"
)

// touchDefinitions changes an annotation of the definitions that are being deleted. An API server can forget a definition if its storage was
// not ready, until its resync, after up to five minutes; a change makes it try again (apiextensions-apiserver, crd_finalizer.go).
func (u *uninstallation) touchDefinitions(ctx context.Context, left []metav1.PartialObjectMetadata) {
	for i := range left {
		if object := &left[i]; object.GroupVersionKind() == definitions && object.DeletionTimestamp != nil {
			patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, object.UID, touchedAnnotation, time.Now().Format(time.RFC3339))
			if err := u.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
				u.progress("%s: %v", nameOf(object), err) // it may have been deleted meanwhile
			}
		}
	}
}

// lastLook reads all pods once more, now that no account has the right to protect: the manager may have been started again between the proof and
// the loss of its rights.
func (u *uninstallation) lastLook(ctx context.Context) error {
	for number := 1; ; number++ {
		p, err := u.readPods(ctx)
		if err != nil {
			return err
		}
		if len(p.held) == 0 || u.DryRun {
			u.proven = !u.DryRun
			return nil
		}
		u.proven = false
		u.print("%s protected after the proof, by a manager that was started again for a moment", count(len(p.held), "pod was", "pods were"))
		u.free(ctx, p)
		u.report(number, p)
		if !rest(ctx, lookInterval) {
			return ctx.Err()
		}
	}
}

// removeAllPods deletes our pods in the namespaces that are left.
func (u *uninstallation) removeAllPods(ctx context.Context, left []metav1.PartialObjectMetadata) error {
	var errs []error
	for i := range left {
		if left[i].Kind == namespaces.Kind {
			errs = append(errs, u.removePods(ctx, left[i].Name))
		}
	}
	return errors.Join(errs...)
}

// leftBehind names what is left, and what the conditions of its namespaces report.
func (u *uninstallation) leftBehind(ctx context.Context, names []string) string {
	explained := fmt.Sprintf("after %s these are still there: %s", goneTimeout, strings.Join(names, ", "))
	var list corev1.NamespaceList
	if err := u.Client.List(ctx, &list); err != nil {
		return explained
	}
	for i := range list.Items {
		namespace := &list.Items[i]
		if namespace.DeletionTimestamp == nil || namespace.Labels[partOfLabel] != partOf {
			continue
		}
		for _, c := range namespace.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				explained += fmt.Sprintf("; Namespace %s has %s: %s", namespace.Name, c.Type, c.Message)
			}
		}
	}
	return explained
}
