// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/pages"
)

// waitCommand is the subcommand that agents run as an init container (cmd/manager).
const waitCommand = "wait-node-resource"

// waitRole is the ClusterRole with which it reads, and its binding.
const waitRole = "holdfast-wait-node-resource"

// check refuses if DaemonSets depend on our definitions, if the manager is in another namespace, or if the list of held entries cannot be written.
func (u *uninstallation) check(ctx context.Context) error {
	if err := u.checkHeldFile(); err != nil {
		return err
	}
	if err := u.checkNamespace(ctx); err != nil {
		return err
	}
	var waiting []string
	for list, err := range pages.Of[appsv1.DaemonSetList](ctx, u.Client) {
		if err != nil {
			return fmt.Errorf("listing every DaemonSet: %w", err)
		}
		for i := range list.Items {
			d := &list.Items[i]
			u.isWaitedFor = u.isWaitedFor || slices.ContainsFunc(d.Spec.Template.Spec.InitContainers, waits)
			if slices.ContainsFunc(d.Spec.Template.Spec.InitContainers, waitsForPolicy) {
				waiting = append(waiting, d.Namespace+"/"+d.Name)
			}
		}
	}
	switch {
	case len(waiting) == 0:
		u.print("no DaemonSet waits for a NodeResourcePolicy")
	case u.KeepCRDs, u.LeaveObjects:
		u.print("DaemonSets that wait for a NodeResourcePolicy, which is kept: %s", strings.Join(waiting, ", "))
	default:
		return fmt.Errorf("nothing was changed: the pods of the DaemonSets %s run `manager %s` before they start, and would wait in vain for a "+
			"NodeResourcePolicy that is deleted. Take that init container out of them first, or keep the policies with --keep-crds",
			strings.Join(waiting, ", "), waitCommand)
	}
	return nil
}

// waitsForPolicy reports whether an init container waits with --policy; with --resource it needs no NodeResourcePolicy.
func waitsForPolicy(c corev1.Container) bool {
	return waits(c) && slices.ContainsFunc(arguments(c), func(a string) bool { return a == "--policy" || strings.HasPrefix(a, "--policy=") })
}

func waits(c corev1.Container) bool { return slices.Contains(arguments(c), waitCommand) }

func arguments(c corev1.Container) []string { return append(slices.Clone(c.Command), c.Args...) }

func (u *uninstallation) checkHeldFile() error {
	if u.HeldFile == "" {
		return nil
	}
	info, err := os.Stat(u.HeldFile)
	if err == nil && info.Size() > 0 {
		return fmt.Errorf("%s has content, perhaps the list of an earlier run: name another file", u.HeldFile)
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("looking at the file for the list: %w", err)
	}
	return nil
}

// checkNamespace refuses if the manager's Deployment is in another namespace: it would protect pods during the sweep.
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
		return fmt.Errorf("nothing was changed: Holdfast's manager is in namespace %s, not in %s: name its namespace (kubectl holdfast: --manager-namespace, manager: --namespace)",
			strings.Join(elsewhere, " and "), u.Namespace)
	}
	return nil
}

// contentsOfOthers are kinds that others may have in a namespace of ours.
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

// foreignIn names the objects in a namespace that are not part of the installation.
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

// inEveryNamespace are the ConfigMaps that Kubernetes, OpenShift and Istio make in each namespace.
var inEveryNamespace = []string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}

// isForeign reports that an object is neither ours, nor made for every namespace, nor owned by another one that is listed, nor being deleted.
func isForeign(gvk schema.GroupVersionKind, object *metav1.PartialObjectMetadata) bool {
	switch {
	case object.DeletionTimestamp != nil, len(object.OwnerReferences) > 0, isOurs(gvk, object), ourPods.AsSelector().Matches(labels.Set(object.Labels)):
		return false
	case gvk.Kind == "ConfigMap":
		return !slices.Contains(inEveryNamespace, object.Name) && !strings.HasPrefix(object.Name, prefix)
	case gvk.Kind == "Secret":
		return !strings.HasPrefix(object.Name, prefix) && !strings.HasPrefix(object.Name, "sh.helm.release.")
	}
	return true
}

// spared leaves out the namespaces that contain objects of others, and reports each once.
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
			u.print("Namespace %s stays, because it has objects that are not part of the installation: %s", namespace.Name, few(foreign))
		}
	}
	return kept, nil
}

// few names the first of many.
func few(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
