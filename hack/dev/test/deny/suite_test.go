// SPDX-License-Identifier: Apache-2.0

// Package deny_test shows that whereabouts goes on working while the unsafe-release webhooks refuse: the whole of
// Holdfast in mode Deny, stand-in nodes, the real whereabouts allocator under its own tokens and its real reconciler.
package deny_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
)

const (
	// patience bounds what has to happen; it is never judged.
	patience     = 3 * time.Minute
	poll         = 200 * time.Millisecond
	startTimeout = 8 * time.Minute
)

var (
	theCluster *cluster.Cluster
	clientset  kubernetes.Interface
	pools      wbclient.Interface
)

func TestDeny(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "whereabouts under Deny")
}

var _ = BeforeSuite(func(ctx context.Context) {
	klog.SetOutput(GinkgoWriter)
	klog.LogToStderr(false)
	root, err := cluster.FindRoot()
	Expect(err).NotTo(HaveOccurred())
	manager := filepath.Join(GinkgoT().TempDir(), "manager")
	build := exec.CommandContext(ctx, "go", "build", "-o", manager, "./cmd/manager")
	build.Dir = root
	out, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))

	theCluster, err = cluster.Start(ctx, cluster.Options{
		Dir: GinkgoT().TempDir(), Log: GinkgoWriter, NodeMonitorGracePeriod: time.Hour,
		StandIn: standin.Options{Heartbeat: time.Second, Retry: 200 * time.Millisecond},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(theCluster.Stop()).To(Succeed()) })
	clientset, err = kubernetes.NewForConfig(theCluster.Config())
	Expect(err).NotTo(HaveOccurred())
	pools, err = wbclient.NewForConfig(theCluster.Config())
	Expect(err).NotTo(HaveOccurred())
	Expect(theCluster.InstallGuard(ctx, cluster.GuardOptions{
		Mode: configv1alpha1.ReleaseModeDeny, Program: manager,
		Configure: cluster.ShortDelays, // what leaks is Holdfast's to release, soon
	})).To(Succeed())
}, NodeTimeout(startTimeout))

// podSpec is a pod that ends at once when it is told to.
func podSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{Name: "main", Image: "app"}},
	}
}
