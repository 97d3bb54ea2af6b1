// SPDX-License-Identifier: Apache-2.0

// Package guarded_test plays the bugs of whereabouts v0.9.4 that the demo does not play, each of them twice: on a cluster of
// simulated nodes without Holdfast, where the harm is done, and on the same cluster with Holdfast in mode Deny, where workloads of other kinds run, too. Allocator and
// reconciler are whereabouts' own code, and run under the accounts and the rights of its own manifests.
package guarded_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	// patience bounds what has to happen; it is never judged.
	patience     = 2 * time.Minute
	poll         = 100 * time.Millisecond
	startTimeout = 8 * time.Minute

	// webhookSeconds replaces the second that the installed webhook has: past it a removal passes, as it should on a
	// cluster and must not in a test, whose machine may be slower than that.
	webhookSeconds = 10

	near, far = "node-a", "node-b"
)

var (
	theCluster *cluster.Cluster
	admin      client.Client
	metricsURL string
)

func TestGuarded(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "whereabouts without the guard and with it")
}

var _ = BeforeSuite(func(ctx context.Context) {
	logf.SetLogger(GinkgoLogr)
	klog.SetOutput(GinkgoWriter)
	klog.LogToStderr(false)
	var err error
	theCluster, err = cluster.Start(ctx, cluster.Options{
		// A node of a busy machine must not be found NotReady.
		Dir: GinkgoT().TempDir(), Nodes: []string{near, far}, Log: GinkgoWriter, NodeMonitorGracePeriod: time.Hour,
		SimNode: simnode.Options{Heartbeat: time.Second, Retry: 200 * time.Millisecond},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(theCluster.Stop()).To(Succeed()) })
	admin, err = client.New(theCluster.Config(), client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(startTimeout))

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	return scheme
}

// installGuard installs Holdfast as built, with unsafe releases in mode Deny.
func installGuard(ctx context.Context) {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	metricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	Expect(theCluster.InstallGuard(ctx, cluster.GuardOptions{
		Mode: configv1alpha1.ReleaseModeDeny,
		Configure: func(c *configv1alpha1.ManagerConfiguration) {
			cluster.ShortDelays(c)
			c.Controller.SweepInterval = &metav1.Duration{Duration: time.Second} // how often the records are audited
			c.Server.MetricsBindAddress = fmt.Sprintf("127.0.0.1:%d", port)
		},
	})).To(Succeed())
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-release"}, &configuration)).To(Succeed())
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].TimeoutSeconds = new(int32(webhookSeconds))
	}
	Expect(admin.Update(ctx, &configuration)).To(Succeed())
}

var _ = JustAfterEach(func() {
	if manager := theCluster.Manager(); CurrentSpecReport().Failed() && manager != nil {
		AddReportEntry("the manager's log ends with", process.LogTail(manager.LogFile()), ReportEntryVisibilityFailureOrVerbose)
	}
})
