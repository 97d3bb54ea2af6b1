// SPDX-License-Identifier: Apache-2.0

// Package guarded_test runs workloads of every kind on a cluster that Holdfast guards in mode Deny: its manager as
// built and installed, the real scheduler and controller manager, whereabouts' real allocator under the tokens of its
// own pods, and its real reconciler. It shows that whereabouts keeps working there, and that nothing is left behind.
package guarded_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
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

	// lonely is a node that a spec may take away; no other spec's pods run there.
	lonely = "node-c"
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
	RunSpecs(t, "whereabouts on a guarded cluster")
}

var _ = BeforeSuite(func(ctx context.Context) {
	klog.SetOutput(GinkgoWriter)
	klog.LogToStderr(false)
	root, err := cluster.FindRoot()
	Expect(err).NotTo(HaveOccurred())
	Expect(filepath.Join(root, "bin", "manager")).To(BeAnExistingFile(), "there is no manager to run: run make build")

	theCluster, err = cluster.Start(ctx, cluster.Options{
		// A node of a busy machine must not be found NotReady; the spec that needs that says it itself.
		Dir: GinkgoT().TempDir(), Nodes: []string{"node-a", "node-b", lonely}, Log: GinkgoWriter, NodeMonitorGracePeriod: time.Hour,
		StandIn: standin.Options{Heartbeat: time.Second, Retry: 200 * time.Millisecond},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(theCluster.Stop()).To(Succeed()) })
	admin, err = client.New(theCluster.Config(), client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	setUnschedulable(ctx, lonely)

	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	metricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	Expect(theCluster.InstallGuard(ctx, cluster.GuardOptions{
		Mode: configv1alpha1.ReleaseModeDeny,
		Configure: func(c *configv1alpha1.ManagerConfiguration) {
			cluster.ShortDelays(c)
			c.Server.MetricsBindAddress = fmt.Sprintf("127.0.0.1:%d", port)
		},
	})).To(Succeed())
	giveTime(ctx)
}, NodeTimeout(startTimeout))

var _ = JustAfterEach(func() {
	if manager := theCluster.Manager(); CurrentSpecReport().Failed() && manager != nil {
		AddReportEntry("the manager's log ends with", process.LogTail(manager.LogFile()), ReportEntryVisibilityFailureOrVerbose)
	}
})

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	return scheme
}

// giveTime raises the time limit of the webhooks that judge removals.
func giveTime(ctx context.Context) {
	GinkgoHelper()
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-release"}, &configuration)).To(Succeed())
	Expect(configuration.Webhooks).NotTo(BeEmpty())
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].TimeoutSeconds = new(int32(webhookSeconds))
	}
	Expect(admin.Update(ctx, &configuration)).To(Succeed())
}
