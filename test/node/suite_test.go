// SPDX-License-Identifier: Apache-2.0

// Package node_test runs the agent's binary, under its real RBAC identity and a token of a pod of its node, against a real API
// server and a real containerd, whose sandboxes are made and killed through the CRI. It needs root and Linux.
//
// Everything is in one temporary folder: containerd's root, state and socket, its CNI configuration, and the pause image, which
// is a static binary. What containerd never does by itself, and CRI-O, is played by k8s.io/cri-client/pkg/fake.
package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	// soon bounds what takes some seconds on a busy machine.
	soon = time.Minute
	// startTimeout bounds the start of the control plane and of containerd, and the build of two binaries.
	startTimeout = 10 * time.Minute
	// specTimeout bounds a spec, its containerd included.
	specTimeout = 5 * time.Minute
	// stable is for how long a state that must not change is watched.
	stable = 3 * time.Second
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository     = "../.."
	agentNamespace = "holdfast-agent"
	agentAccount   = "holdfast-agent"
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything.
	admin  client.Client
	scheme = runtime.NewScheme()
	// folder has everything of the suite. agentBinary is built with the race detector.
	folder, agentBinary string
	engine              *containerd
)

func TestNode(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The agent on a node")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyDuration(stable)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	Expect(os.Geteuid()).To(BeZero(), "this suite starts a container runtime and needs root")
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	var err error
	folder, err = os.MkdirTemp("", "holdfast-node-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(folder)).To(Succeed()) })

	plane, err = controlplane.Start(ctx, controlplane.Options{CRDs: []string{filepath.Join(repository, "config/crd/bases")},
		NodeMonitorGracePeriod: time.Hour, Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	installAgent(ctx)
	agentBinary = filepath.Join(folder, "agent")
	run("go", "build", "-race", "-o", agentBinary, "./cmd/agent")
	engine = newContainerd(filepath.Join(folder, "containerd"))
	engine.start(ctx)
	// The last thing that is set up is the first that is taken down.
	DeferCleanup(func(ctx context.Context) { engine.tearDown(ctx) }, NodeTimeout(specTimeout))
	engine.importPause(ctx)
}, NodeTimeout(startTimeout))

// installAgent applies config/agent as it is installed. Nothing runs its DaemonSet: the suite starts the agents.
func installAgent(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-system"}})).To(Succeed())
	objects, err := manifests.Parse([]byte(run("go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", "config/agent")))
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		Expect(admin.Create(ctx, object)).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
	}
}

// run runs a command in the repository and gives what it printed.
func run(name string, args ...string) string {
	GinkgoHelper()
	out, err := process.Output(context.Background(), repository, name, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}
