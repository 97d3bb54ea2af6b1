// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An ElsewhereError says that the manager is in other namespaces than the one to be uninstalled: it would go on protecting pods.
type ElsewhereError struct {
	// Namespace is the one that was given, and Found are those that have a manager.
	Namespace string
	Found     []string
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("nothing was changed: Holdfast's manager is in namespace %s, not in %s: say --namespace=%s",
		strings.Join(e.Found, " and "), e.Namespace, e.Found[0])
}

// checkNamespace refuses where the manager's Deployment is in another namespace: what is not stopped would put its finalizer on
// pods again while it is taken off.
func (u *uninstallation) checkNamespace(ctx context.Context) error {
	deployments, err := u.find(ctx, []schema.GroupVersionKind{kind("apps", "v1", "Deployment")}, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	var elsewhere []string
	for i := range deployments {
		if d := &deployments[i]; d.Name == managerName && d.Namespace != u.Namespace {
			elsewhere = append(elsewhere, d.Namespace)
		}
	}
	if len(elsewhere) > 0 {
		return &ElsewhereError{Namespace: u.Namespace, Found: elsewhere}
	}
	return nil
}

// contentsOfOthers are what somebody else may have put into a namespace of ours and would miss.
var contentsOfOthers = []schema.GroupVersionKind{
	kind("apps", "v1", "Deployment"),
	kind("apps", "v1", "StatefulSet"),
	kind("apps", "v1", "DaemonSet"),
	kind("batch", "v1", "Job"),
	kind("batch", "v1", "CronJob"),
	kind("", "v1", "Pod"),
	kind("", "v1", "Service"),
	kind("", "v1", "PersistentVolumeClaim"),
	kind("", "v1", "ConfigMap"),
	kind("", "v1", "Secret"),
}

// foreignIn names what a namespace holds that did not come with the installation.
func (u *uninstallation) foreignIn(ctx context.Context, namespace string) ([]string, error) {
	var foreign []string
	for _, gvk := range contentsOfOthers {
		all, err := u.list(ctx, gvk, namespace)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if isForeign(gvk, &all[i]) {
				foreign = append(foreign, nameOf(&all[i]))
			}
		}
	}
	return foreign, nil
}

// isForeign: neither ours, nor made for every namespace, nor a part of something else that is listed. What is being deleted is
// nobody's loss.
func isForeign(gvk schema.GroupVersionKind, object *metav1.PartialObjectMetadata) bool {
	switch {
	case object.DeletionTimestamp != nil, len(object.OwnerReferences) > 0, isOurs(gvk, object), ourPods.AsSelector().Matches(labels.Set(object.Labels)):
		return false
	case gvk.Kind == "ConfigMap":
		return object.Name != "kube-root-ca.crt" && !strings.HasPrefix(object.Name, prefix)
	case gvk.Kind == "Secret":
		return !strings.HasPrefix(object.Name, prefix) && !strings.HasPrefix(object.Name, "sh.helm.release.")
	}
	return true
}

// spared takes the namespaces out that hold what is somebody else's, and says once which and why.
func (u *uninstallation) spared(ctx context.Context, own []metav1.PartialObjectMetadata) ([]metav1.PartialObjectMetadata, error) {
	kept := own[:0]
	for i := range own {
		namespace := own[i]
		foreign, err := u.foreignIn(ctx, namespace.Name)
		if err != nil {
			return nil, err
		}
		if len(foreign) == 0 || namespace.DeletionTimestamp != nil {
			kept = append(kept, namespace)
			continue
		}
		if !slices.Contains(u.sparedNamespaces, namespace.Name) {
			u.sparedNamespaces = append(u.sparedNamespaces, namespace.Name)
			u.say("Namespace %s stays, because it holds what did not come with the installation: %s", namespace.Name, few(foreign))
		}
	}
	return kept, nil
}

// few names the first of many.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
