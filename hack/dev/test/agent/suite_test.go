// SPDX-License-Identifier: Apache-2.0

// Package agent_test runs the release handshake between stand-in nodes and the manager: Holdfast's agent as built and
// installed, one process for each node under the token of its DaemonSet's pod, at the CRI socket of its machine. For contrast it
// shows what the guard does on the same nodes without agents.
package agent_test

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	patience = time.Minute // for what has to happen; never judged
	poll     = 100 * time.Millisecond
	// quiet is in what something must not happen: an agent looks every second, a manager when anything changes.
	quiet        = 3 * time.Second
	startTimeout = 5 * time.Minute
	// creationMax: a stand-in runtime lists a sandbox before an IPAM hears of it.
	creationMax = 3 * time.Second

	// Each has the specs that do something to it; nothing breaks steady, whose CNI DEL has the time that it takes.
	frozen, silent, booted, renamed, steady = "node-a", "node-b", "node-c", "node-d", "node-e"
)

var (
	theCluster *cluster.Cluster
	admin      client.WithWatch
)

func TestAgent(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(poll)
	SetDefaultConsistentlyDuration(quiet)
	SetDefaultConsistentlyPollingInterval(poll)
	RunSpecs(t, "the agent on stand-in nodes")
}

var _ = BeforeSuite(func(ctx context.Context) {
	klog.SetOutput(GinkgoWriter)
	klog.LogToStderr(false)
	root, err := cluster.FindRoot()
	Expect(err).NotTo(HaveOccurred())
	for _, program := range []string{"manager", "agent"} {
		Expect(filepath.Join(root, "bin", program)).To(BeAnExistingFile(), "there is no %s to run: run make build", program)
	}
	theCluster, err = cluster.Start(ctx, cluster.Options{
		// A frozen node counts as Ready, so that nothing but its agent can be silent.
		Dir: GinkgoT().TempDir(), Nodes: []string{frozen, silent, booted, renamed, steady}, Log: GinkgoWriter, NodeMonitorGracePeriod: time.Hour,
		StandIn: standin.Options{Heartbeat: time.Second, Retry: 200 * time.Millisecond, DelTimeout: time.Second,
			DelTimeouts: map[string]time.Duration{steady: time.Minute}},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(theCluster.Stop()).To(Succeed()) })
	admin, err = client.NewWithWatch(theCluster.Config(), client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	installGuard(ctx, configv1alpha1.EvidenceAgent)
}, NodeTimeout(startTimeout))

// installGuard installs Holdfast as built, in mode Deny, which with evidence Kubelet is an administrator's choice.
func installGuard(ctx context.Context, evidence configv1alpha1.Evidence) {
	GinkgoHelper()
	Expect(theCluster.InstallGuard(ctx, cluster.GuardOptions{
		Mode: configv1alpha1.ReleaseModeDeny, Evidence: evidence,
		Configure: func(c *configv1alpha1.ManagerConfiguration) { // so that nobody has to wait
			c.Delays.ReleaseDelay = &metav1.Duration{Duration: time.Second}
			c.Delays.GracePeriodSlack = &metav1.Duration{Duration: time.Second}
			c.Delays.SandboxCreationMax = &metav1.Duration{Duration: creationMax}
			c.Handshakes.AnswerWithin = &metav1.Duration{Duration: 2 * time.Second}
		},
	})).To(Succeed())
}

var _ = JustAfterEach(func() {
	if manager := theCluster.Manager(); CurrentSpecReport().Failed() && manager != nil {
		AddReportEntry("the manager's log ends with", process.LogTail(manager.LogFile()), ReportEntryVisibilityFailureOrVerbose)
		for _, node := range []string{frozen, silent, booted, renamed, steady} {
			log := filepath.Join(nodeDir(node), "agent.log")
			AddReportEntry(fmt.Sprintf("the log of the agent of %s ends with", node), process.LogTail(log), ReportEntryVisibilityFailureOrVerbose)
		}
	}
})

// nodeDir is the folder of a stand-in node's files, while a manager runs.
func nodeDir(node string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(theCluster.Manager().LogFile())), "standin", node)
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	return scheme
}
