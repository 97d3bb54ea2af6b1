// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	own, release = "holdfast-system", "holdfast"
	hook         = "holdfast-uninstall"
	// foreign is the finalizer of another controller.
	foreign = "example.com/backup"
)

// chart is the tree's, or what a release published in a registry on this machine.
var chart = cmp.Or(os.Getenv("HOLDFAST_CHART"), "charts/holdfast")

// everything is the values of all that this control plane can have, which has no ServiceMonitors.
func everything() string {
	GinkgoHelper()
	return fmt.Sprintf("--set=protection.admissionPolicy=%t,networkPolicy.enabled=true", fixture.ServesMutatingPolicies())
}

// install installs the chart with everything.
func install(args ...string) {
	GinkgoHelper()
	all := []string{"install", release, chart, "--create-namespace", everything()}
	out, err := helm(append(all, args...)...)
	Expect(err).NotTo(HaveOccurred(), out)
}

// hold makes a pod that is guarded and deleted; our finalizer keeps it, and those in more.
func hold(ctx context.Context, namespace, name string, more ...string) *corev1.Pod {
	GinkgoHelper()
	pod := fixture.GuardedPod(namespace, name)
	pod.Finalizers = append(pod.Finalizers, more...)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	Expect(admin.Delete(ctx, pod)).To(Succeed())
	return pod
}

// kubelet runs the pods of the hook until ctx is done: the command of the container, with a token that is bound to the pod. Where enough
// is not empty, it ends the command once that is printed, as a node does that is shut down. What the command printed comes at the end.
// Pods that never stop get seconds instead of minutes, and two clean reads may follow each other at once.
func kubelet(ctx context.Context, enough string) (logs <-chan string) {
	ended := make(chan string, 1)
	go func() {
		defer GinkgoRecover()
		var printed strings.Builder
		defer func() { ended <- printed.String() }()
		look := func(ctx context.Context) (bool, error) {
			var pods corev1.PodList
			if err := admin.List(ctx, &pods, client.InNamespace(own), client.MatchingLabels{"app.kubernetes.io/name": hook}); err != nil {
				return false, err
			}
			for i := range pods.Items {
				if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
					runPod(ctx, pod, &printed, enough)
				}
			}
			return false, nil
		}
		if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, look); ctx.Err() == nil {
			Expect(err).NotTo(HaveOccurred())
		}
	}()
	return ended
}

// kubeconfigOf is a file with the token of a pod.
func kubeconfigOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	config, err := plane.ServiceAccountConfig(ctx, pod.Namespace, pod.Spec.ServiceAccountName, pod)
	if err != nil {
		return "", err
	}
	content, err := controlplane.Kubeconfig(config)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file, nil
}

// runPod is one run of a pod, to its phase.
func runPod(ctx context.Context, pod *corev1.Pod, printed io.Writer, enough string) {
	file, err := kubeconfigOf(ctx, pod)
	if ctx.Err() != nil || apierrors.IsNotFound(err) {
		return // a retry after the account is gone: a kubelet would wait for it
	}
	Expect(err).NotTo(HaveOccurred())
	container := pod.Spec.Containers[0]
	Expect(container.Command).To(Equal([]string{"/manager"}))
	running, end := context.WithCancel(ctx)
	defer end()
	command := exec.CommandContext(running, fixture.Command("manager"), append(container.Args, "--stop-timeout=2s", "--pass-interval=200ms")...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Env = append(os.Environ(), "KUBECONFIG="+file)
	command.Stdout = io.MultiWriter(printed, GinkgoWriter, watcher{enough, end})
	command.Stderr = command.Stdout
	pod.Status.Phase = corev1.PodSucceeded
	if err := command.Run(); err != nil {
		pod.Status.Phase = corev1.PodFailed
	}
	if ctx.Err() == nil {
		Expect(client.IgnoreNotFound(admin.Status().Update(ctx, pod))).To(Succeed())
	}
}

// strand puts a pod of the manager on a node without a kubelet, where it will not stop.
func strand(ctx context.Context) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stopped"}}
	Expect(admin.Create(ctx, node)).To(Succeed())
	var pods corev1.PodList
	Eventually(ctx, func() []corev1.Pod {
		Expect(admin.List(ctx, &pods, client.InNamespace(own), client.MatchingLabels{"app.kubernetes.io/component": "manager"})).To(Succeed())
		return pods.Items
	}).ShouldNot(BeEmpty())
	pod := &pods.Items[0]
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	Expect(admin.SubResource("binding").Create(ctx, pod, binding)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
		Expect(admin.Delete(ctx, node)).To(Succeed())
	})
}

// watcher calls a function at a text.
type watcher struct {
	text string
	call func()
}

func (w watcher) Write(p []byte) (int, error) {
	if w.text != "" && strings.Contains(string(p), w.text) {
		w.call()
	}
	return len(p), nil
}

// installed are the objects of the release as Helm has recorded them, without those that are kept.
func installed() []*unstructured.Unstructured {
	GinkgoHelper()
	manifest, err := helm("get", "manifest", release)
	Expect(err).NotTo(HaveOccurred())
	objects := slices.DeleteFunc(fixture.Decode([]byte(manifest)), func(o *unstructured.Unstructured) bool {
		return o.GetAnnotations()["helm.sh/resource-policy"] == "keep"
	})
	Expect(len(objects)).To(BeNumerically(">", 40))
	return objects
}

// standing are those of the objects that the API server still has.
func standing(ctx context.Context, objects []*unstructured.Unstructured) []string {
	GinkgoHelper()
	var names []string
	for _, object := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		err := admin.Get(ctx, client.ObjectKeyFromObject(object), live)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err == nil {
			names = append(names, object.GetKind()+" "+object.GetName())
		}
	}
	return names
}

// ofHook are the objects of the hook that the API server has.
func ofHook(ctx context.Context) []string {
	GinkgoHelper()
	var kinds []string
	for _, kind := range []struct{ version, kind, namespace string }{
		{"v1", "ServiceAccount", own}, {"batch/v1", "Job", own},
		{"rbac.authorization.k8s.io/v1", "ClusterRole", ""}, {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ""},
		{"rbac.authorization.k8s.io/v1", "Role", own}, {"rbac.authorization.k8s.io/v1", "RoleBinding", own},
	} {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(kind.version)
		object.SetKind(kind.kind)
		err := admin.Get(ctx, client.ObjectKey{Namespace: kind.namespace, Name: hook}, object)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err == nil {
			kinds = append(kinds, kind.kind)
		}
	}
	return kinds
}
