// SPDX-License-Identifier: Apache-2.0

// Package adversaries_test lets whereabouts' own clean-up run against StatefulSets that come and go: its real reconciler,
// again and again and by its own schedule, and its real pod control loop on every node; all under the accounts and the
// rights of its own manifests. Pools have just as many addresses as there are pods to serve.
//
// The harm is shown on the cluster as it is, without Holdfast, then in mode Warn, which lets it happen and tells of it; in
// mode Deny it does not happen. Who used which address when is taken from the stand-in machines, which know nothing of the
// guard.
package adversaries_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	// patience bounds what has to happen; it is never judged.
	patience     = 5 * time.Minute
	poll         = 400 * time.Millisecond
	startTimeout = 8 * time.Minute

	// webhookSeconds replaces the second that the installed webhooks have: past it a removal passes, as it should on a
	// cluster and must not in a test, whose machine may be slower than that.
	webhookSeconds = 10
)

var nodes = []string{"node-a", "node-b"}

var (
	theCluster *cluster.Cluster
	admin      client.Client
	directory  string
	metricsURL string
	// flatFile is whereabouts' configuration file that every network names: the control loop needs one.
	flatFile string
)

func TestAdversaries(t *testing.T) {
	if os.Getenv(controlLoopMode) != "" {
		runControlLoop() // this process is a child of the suite
		return
	}
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "whereabouts' own adversaries")
}

var _ = BeforeSuite(func(ctx context.Context) {
	logf.SetLogger(GinkgoLogr)
	klog.SetLogger(GinkgoLogr)
	root, err := cluster.FindRoot()
	Expect(err).NotTo(HaveOccurred())
	Expect(filepath.Join(root, "bin", "manager")).To(BeAnExistingFile(), "there is no manager to run: run make build")

	directory = GinkgoT().TempDir()
	theCluster, err = cluster.Start(ctx, cluster.Options{
		// A node of a busy machine must not be found NotReady.
		Dir: directory, Nodes: nodes, Log: GinkgoWriter, NodeMonitorGracePeriod: time.Hour,
		StandIn: standin.Options{Heartbeat: time.Second, Retry: 200 * time.Millisecond, MaxGrace: -1},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(theCluster.Stop()).To(Succeed()) })
	admin, err = client.New(theCluster.Config(), client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	writeFlatFile()
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

// writeFlatFile writes what whereabouts' installation leaves on every node. Of the kubeconfig nothing but the namespace is
// read: identities are given.
func writeFlatFile() {
	GinkgoHelper()
	kubeconfig := filepath.Join(directory, "whereabouts.kubeconfig")
	flatFile = filepath.Join(directory, "whereabouts.conf")
	for name, content := range map[string]string{
		kubeconfig: `{"apiVersion":"v1","kind":"Config","current-context":"one","contexts":[{"name":"one",` +
			`"context":{"cluster":"c","namespace":"` + standin.DefaultWhereaboutsNamespace + `"}}]}`,
		flatFile: fmt.Sprintf(`{"kubernetes":{"kubeconfig":%q}}`, kubeconfig),
	} {
		Expect(os.WriteFile(name, []byte(content), 0o600)).To(Succeed())
	}
}

// installGuard installs Holdfast as built.
func installGuard(ctx context.Context, mode configv1alpha1.ReleaseMode) {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	metricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	Expect(theCluster.InstallGuard(ctx, cluster.GuardOptions{
		Mode: mode,
		Configure: func(c *configv1alpha1.ManagerConfiguration) {
			cluster.ShortDelays(c)
			c.Server.MetricsBindAddress = fmt.Sprintf("127.0.0.1:%d", port)
		},
	})).To(Succeed())
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-release"}, &configuration)).To(Succeed())
	Expect(configuration.Webhooks).NotTo(BeEmpty())
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].TimeoutSeconds = new(int32(webhookSeconds))
	}
	Expect(admin.Update(ctx, &configuration)).To(Succeed())
}

// reconfigure restarts the manager with another value in its configuration.
func reconfigure(ctx context.Context, from, to string) {
	GinkgoHelper()
	Expect(theCluster.Manager().Stop(0)).To(Succeed())
	path := filepath.Join(directory, "manager", "config.yaml")
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.Count(string(content), from)).To(Equal(1), "%q in %s", from, content)
	Expect(os.WriteFile(path, []byte(strings.Replace(string(content), from, to, 1)), 0o600)).To(Succeed())
	Expect(theCluster.StartManager(ctx)).To(Succeed())
}
