// SPDX-License-Identifier: Apache-2.0

// Package shapes_test takes every shape that a whereabouts network can have through its life on a guarded cluster:
// whereabouts' real allocator and node-slice controller, Holdfast's manager as built and installed, in mode Deny. Whatever
// the shape, each address is recorded and comes back: by CNI DEL in the ordinary case, by the guard where DEL was lost or
// the node died. The shapes that whereabouts v0.8.0 knows are also those of pods on nodes that still have its plugin.
package shapes_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
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
	// patience bounds what has to happen; it is never judged.
	patience     = 2 * time.Minute
	poll         = 100 * time.Millisecond
	startTimeout = 8 * time.Minute

	// delTimeout is how long a CNI DEL tries where it gets lost. It is a minute in the plugin, and where DELs have to pass: they
	// wait for one Lease, and that of a busy machine is handed on slowly.
	delTimeout = 12 * time.Second

	// webhookSeconds replaces the second that the installed webhooks have: past it a removal passes, as it should on a
	// cluster and must not in a test, whose machine may be slower than that.
	webhookSeconds = 10

	// firstNamespace and secondNamespace hold whereabouts' objects.
	firstNamespace, secondNamespace = standin.DefaultWhereaboutsNamespace, "whereabouts-two"
)

// The nodes, by how pods end there.
const (
	// ordinary: everything works.
	ordinary = "node-a"
	// cutOff: the CNI plugins cannot reach the API server.
	cutOff = "node-b"
	// sliceless: as cutOff, for the networks that have node slices. A DEL in a node's slice does not get lost where there is no
	// API server: it fails, and is made again.
	sliceless = "node-h"
	// stuck: the Leases of its slices are held by somebody who is gone.
	stuck = "node-c"
	// dead: the power is cut, and the node declared out of service.
	dead = "node-d"
	// old and oldCutOff: as ordinary and cutOff, and the plugin is whereabouts v0.8.0's own program, as in the midst of an
	// upgrade.
	old, oldCutOff = "node-f", "node-g"
	// clusterwide: Multus takes the pods' default interface from whereabouts there.
	clusterwide = "node-e"
)

var everyNode = []string{ordinary, cutOff, sliceless, stuck, dead, old, oldCutOff, clusterwide}

var (
	theCluster *cluster.Cluster
	admin      client.Client
	metricsURL string
	// directory has what the networks' configurations name.
	directory string
	// namespace is that of the pods.
	namespace string
)

func TestShapes(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "every shape of whereabouts")
}

var _ = BeforeSuite(func(ctx context.Context) {
	klog.SetLogger(GinkgoLogr)
	root, err := cluster.FindRoot()
	Expect(err).NotTo(HaveOccurred())
	Expect(filepath.Join(root, "bin", "manager")).To(BeAnExistingFile(), "there is no manager to run: run make build")

	directory = GinkgoT().TempDir()
	program := buildOld(ctx, root)
	theCluster, err = cluster.Start(ctx, cluster.Options{
		// A node of a busy machine must not be found NotReady; where that is needed it is said.
		Dir: directory, Nodes: everyNode, Log: GinkgoWriter, NodeMonitorGracePeriod: time.Hour,
		StandIn: standin.Options{Heartbeat: time.Second, Retry: 200 * time.Millisecond,
			DelTimeouts: map[string]time.Duration{cutOff: delTimeout, oldCutOff: delTimeout, stuck: delTimeout},
			Programs:    map[string]string{old: program, oldCutOff: program}},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(theCluster.Stop()).To(Succeed()) })
	admin, err = client.New(theCluster.Config(), client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())

	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	metricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	Expect(theCluster.InstallGuard(ctx, cluster.GuardOptions{
		Mode: configv1alpha1.ReleaseModeDeny,
		Configure: func(c *configv1alpha1.ManagerConfiguration) {
			c.Whereabouts.Namespaces = []string{firstNamespace, secondNamespace}
			cluster.ShortDelays(c)
			c.Server.MetricsBindAddress = fmt.Sprintf("127.0.0.1:%d", port)
		},
	})).To(Succeed())
	giveTime(ctx)
	namespace = createNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shapes-"}})
	createNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secondNamespace}})
	writeFiles()
	runSliceController(ctx)
}, NodeTimeout(startTimeout))

var _ = JustAfterEach(func() {
	if manager := theCluster.Manager(); CurrentSpecReport().Failed() && manager != nil {
		AddReportEntry("the manager's log ends with", process.LogTail(manager.LogFile()), ReportEntryVisibilityFailureOrVerbose)
	}
})

// buildOld builds the program of whereabouts v0.8.0, which has a module of its own.
func buildOld(ctx context.Context, root string) string {
	GinkgoHelper()
	program := filepath.Join(directory, "whereabouts-0.8.0")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/k8snetworkplumbingwg/whereabouts/cmd")
	build.Dir = filepath.Join(root, "hack", "whereabouts08")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return program
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

// createNamespace makes one in which pods can start, and returns its name.
func createNamespace(ctx context.Context, object *corev1.Namespace) string {
	GinkgoHelper()
	Expect(admin.Create(ctx, object)).To(Succeed())
	Eventually(ctx, func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: object.Name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())
	return object.Name
}
