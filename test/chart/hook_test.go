// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// hooks are the objects that `helm uninstall` runs before it removes the release.
func hooks(t *testing.T, given values) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, object := range mustTemplate(t, given) {
		if object.GetAnnotations()["helm.sh/hook"] != "" {
			found[nameOf(object)] = object
		}
	}
	return found
}

const job = "Job " + own + "/holdfast-uninstall"

func TestHooks(t *testing.T) {
	found := hooks(t, nil)
	want := []string{
		"ClusterRole holdfast-uninstall", "ClusterRoleBinding holdfast-uninstall", job, "Role " + own + "/holdfast-uninstall",
		"RoleBinding " + own + "/holdfast-uninstall", "ServiceAccount " + own + "/holdfast-uninstall",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, object := range found {
		annotations, labels := object.GetAnnotations(), object.GetLabels()
		if annotations["helm.sh/hook"] != "pre-delete" {
			t.Errorf("%s is run at %s", name, annotations["helm.sh/hook"])
		}
		// Only the Job stays, for its log.
		if gone := strings.Contains(annotations["helm.sh/hook-delete-policy"], "hook-succeeded"); gone == (name == job) {
			t.Errorf("%s is deleted with the hook: %t", name, gone)
		}
		// The command takes what is labeled or named like an installation for a part of one, and its pods for the manager's.
		if labels["app.kubernetes.io/part-of"] != "" || labels["app.kubernetes.io/name"] == "holdfast" {
			t.Errorf("%s has labels of the installation: %v", name, labels)
		}
	}
}

// TestHookRunsTheCommand: the image, the flags and the account of the Job.
func TestHookRunsTheCommand(t *testing.T) {
	found := hooks(t, values{"manager": values{"image": values{"digest": digest}, "nodeSelector": values{"a": "b"}, "hostNetwork": true}})
	got := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found[job].Object, got, true); err != nil {
		t.Fatal(err)
	}
	pod := got.Spec.Template.Spec
	container := pod.Containers[0]
	if want := "ghcr.io/holdfast-dev/holdfast-manager@" + digest; container.Image != want {
		t.Errorf("image %s, want %s", container.Image, want)
	}
	if diff := cmp.Diff([]string{"/manager", "uninstall", "--yes", "--leave-objects", "--namespace=" + own}, append(container.Command, container.Args...)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if pod.ServiceAccountName != "holdfast-uninstall" || !pod.HostNetwork || pod.NodeSelector["a"] != "b" || len(pod.Tolerations) != 2 {
		t.Errorf("got %+v", pod)
	}
	if labels := got.Spec.Template.Labels; labels["app.kubernetes.io/name"] != "holdfast-uninstall" || labels["app.kubernetes.io/component"] != "" {
		t.Errorf("the command, which waits for the manager's pods to go, would wait for its own: %v", labels)
	}
}

// TestHookHasTheManagersOwnRestrictions: its pod fits into a namespace that enforces restricted, as the manager's does.
func TestHookHasTheManagersOwnRestrictions(t *testing.T) {
	named := byName(mustTemplate(t, nil))
	specOf := func(object string) map[string]any {
		spec, _, err := unstructured.NestedMap(named[object].Object, "spec", "template", "spec")
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	manager, hook := specOf("Deployment "+own+"/holdfast-manager"), specOf(job)
	containerOf := func(spec map[string]any) map[string]any { return spec["containers"].([]any)[0].(map[string]any) }
	if diff := cmp.Diff(manager["securityContext"], hook["securityContext"]); diff != "" {
		t.Errorf("(-manager +hook)\n%s", diff)
	}
	if diff := cmp.Diff(containerOf(manager)["securityContext"], containerOf(hook)["securityContext"]); diff != "" {
		t.Errorf("(-manager +hook)\n%s", diff)
	}
}

// TestHookHasNoRightToSpare: it may delete or change objects by name only, except held pods.
func TestHookHasNoRightToSpare(t *testing.T) {
	found := hooks(t, nil)
	for _, name := range []string{"ClusterRole holdfast-uninstall", "Role " + own + "/holdfast-uninstall"} {
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[name].Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			reads := !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb != "get" && verb != "list" })
			pods := slices.Equal(rule.Resources, []string{"pods"}) || slices.Equal(rule.Resources, []string{"pods/status"})
			if slices.Contains(append(rule.Verbs, append(rule.Resources, rule.APIGroups...)...), "*") || slices.Contains(rule.Resources, "secrets") {
				t.Errorf("%s: %v", name, rule)
			}
			if !reads && len(rule.ResourceNames) == 0 && (!pods || slices.Contains(rule.Verbs, "delete")) {
				t.Errorf("%s may write without a name: %v", name, rule)
			}
		}
	}
}

// TestNamespaceIsDocumented: the page says the labels that the chart cannot set, and the notes too.
func TestNamespaceIsDocumented(t *testing.T) {
	labels := byName(kustomization{Resources: []string{"config/default"}}.build(t))["Namespace "+own].GetLabels()
	delete(labels, "app.kubernetes.io/part-of") // by it the command recognizes a namespace that it may remove
	page, notes := read(t, "docs/installation-helm.md"), read(t, "charts/holdfast/templates/NOTES.txt")
	for label, level := range labels {
		if !strings.Contains(page, label+"="+level) {
			t.Errorf("%s=%s is not on the page", label, level)
		}
		if !strings.Contains(notes, label) {
			t.Errorf("%s is not in the notes", label)
		}
	}
}

// TestPackaged: the archive is what the folder is.
func TestPackaged(t *testing.T) {
	folder := t.TempDir()
	if text, err := helm(t, nil, "package", chart, "--destination="+folder); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	archives, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("%v, %v", archives, err)
	}
	given := values{"prometheus": values{"enabled": true}}
	fromFolder, err := template(t, own, given)
	if err != nil {
		t.Fatal(err)
	}
	fromArchive, err := helm(t, given, "template", "holdfast", archives[0], "--namespace="+own, "--kube-version="+kubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromFolder, fromArchive); diff != "" {
		t.Errorf("(-folder +archive)\n%s", diff)
	}
}

// TestCopiesAreFresh says it before the comparison does: everything that is copied is as in config/.
func TestCopiesAreFresh(t *testing.T) {
	text, err := output(exec.Command("sh", filepath.Join(repository, "hack/chart/sync"), "--check"))
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
