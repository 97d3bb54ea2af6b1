// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	// soon bounds what controllers do at once; on a busy machine that is seconds.
	soon = time.Minute
	// podGCSoon bounds what PodGC does on its round every 20s.
	podGCSoon = 2 * time.Minute

	pollInterval = 100 * time.Millisecond

	nodeMonitorGracePeriod = 4 * time.Second
)

var (
	plane     *controlplane.ControlPlane
	clientset *kubernetes.Clientset
)

func TestControlPlane(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Control plane")
}

// widgetCRD is served by the suite's control plane.
const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.holdfast.dev}
spec:
  group: test.holdfast.dev
  names: {kind: Widget, plural: widgets}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
`

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)

	crds := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(crds, "widgets.yaml"), []byte(widgetCRD), 0o600)).To(Succeed())
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		Scheduler:              true,
		NodeMonitorGracePeriod: nodeMonitorGracePeriod,
		CRDs:                   []string{crds},
		Log:                    GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stopLeavesNothing)
	clientset, err = kubernetes.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
})

func stopLeavesNothing() {
	pids := map[string]int{
		"kube-controller-manager": plane.ControllerManager().PID(),
		"kube-scheduler":          plane.Scheduler().PID(),
	}
	for _, component := range []string{"etcd", "kube-apiserver"} {
		pid, err := plane.PID(component)
		Expect(err).NotTo(HaveOccurred())
		pids[component] = pid
	}
	for component, pid := range pids {
		Expect(syscall.Kill(pid, 0)).To(Succeed(), "%s should run until it is stopped", component)
	}
	Expect(plane.Stop()).To(Succeed())
	for component, pid := range pids {
		Expect(syscall.Kill(pid, 0)).To(MatchError(syscall.ESRCH), "%s should be gone", component)
	}
	Expect(plane.WorkDir()).NotTo(BeADirectory())
	Expect(plane.Stop()).To(Succeed(), "stopping twice")
}

// pod is a pod of one container; it never runs, since no kubelet is there.
func pod(name string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.invalid/none"}}}}
	p.Name = name
	return p
}

// newNamespace makes a namespace for one spec and deletes it afterwards.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{}
	ns.GenerateName = "spec-"
	created, err := clientset.CoreV1().Namespaces().Create(ctx, ns, createOptions)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(clientset.CoreV1().Namespaces().Delete(ctx, created.Name, deleteOptions)).To(Succeed())
	})
	return created.Name
}

// newReadyNode makes a Node that says once that it is Ready.
func newReadyNode(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{}
	node.Name = name
	node, err := clientset.CoreV1().Nodes().Create(ctx, node, createOptions)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(clientset.CoreV1().Nodes().Delete(ctx, name, deleteOptions)).To(Succeed())
	})
	Expect(heartbeat(ctx, name)).To(Succeed())
	return node
}

// running are the process IDs stored in a folder that still exist.
func running(dir string) []string {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(dir, "*.pid"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	var alive []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		Expect(err).NotTo(HaveOccurred())
		if syscall.Kill(pid, 0) == nil {
			alive = append(alive, file)
		}
	}
	return alive
}
