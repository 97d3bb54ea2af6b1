// SPDX-License-Identifier: Apache-2.0

// Package standin_test runs stand-in nodes on a real control plane, with the real
// whereabouts allocator, and without Holdfast.
package standin_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
)

const (
	patience = 2 * time.Minute // for what has to happen; never judged
	poll     = 200 * time.Millisecond

	quiet = time.Second // in which something must not happen

	startTimeout = 5 * time.Minute
)

var (
	theCluster *cluster.Cluster
	clientset  kubernetes.Interface
)

func TestStandIn(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "stand-in nodes")
}

var _ = BeforeSuite(func(ctx context.Context) {
	klog.SetOutput(GinkgoWriter)
	klog.LogToStderr(false)
	var err error
	theCluster, err = cluster.Start(ctx, cluster.Options{
		Dir: GinkgoT().TempDir(), Nodes: []string{"node-a", "node-b", "node-c", replaceable, partitioned}, Log: GinkgoWriter,
		StandIn: standin.Options{Heartbeat: time.Second, Retry: 500 * time.Millisecond, DelTimeout: 2 * time.Second},
	})
	Expect(err).NotTo(HaveOccurred())
	clientset, err = kubernetes.NewForConfig(theCluster.Config())
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(startTimeout))

var _ = AfterSuite(func() {
	if theCluster != nil {
		Expect(theCluster.Stop()).To(Succeed())
	}
})
