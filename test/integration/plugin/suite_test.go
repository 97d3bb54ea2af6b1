// SPDX-License-Identifier: Apache-2.0

// Package plugin_test runs the built kubectl-holdfast against a real control plane with a real manager, in a healthy state and in
// broken ones, and compares what it prints and how it ends.
package plugin_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	// soon bounds what takes seconds at most on an idle machine.
	soon = time.Minute
	// specTimeout bounds a spec, startTimeout the start of the control plane and the build of the command.
	specTimeout  = 5 * time.Minute
	startTimeout = 10 * time.Minute
	// commandTimeout bounds one run of the command.
	commandTimeout = 3 * time.Minute
	pollInterval   = 50 * time.Millisecond

	repository = "../../.."
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything.
	admin  client.Client
	scheme = runtime.NewScheme()
	// binary is the command, as it is released.
	binary string
)

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Plugin")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	utilruntime.Must(addAll(scheme))
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{
			moduleFile("github.com/cert-manager/cert-manager", "deploy/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml"),
			filepath.Join(repository, "config/crd/bases"),
		},
		NodeMonitorGracePeriod: time.Hour,
		NodeStartupGracePeriod: time.Hour,
		Log:                    GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	binary = filepath.Join(GinkgoT().TempDir(), "kubectl-holdfast")
	run("go", "build", "-o", binary, "./cmd/kubectl-holdfast")
	install(ctx)
}, NodeTimeout(startTimeout))

// addAll adds the types of all objects that specs write.
func addAll(types *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme} {
		if err := add(types); err != nil {
			return err
		}
	}
	return nil
}

// moduleFile is a path inside the folder of a module that go.mod names.
func moduleFile(module, path string) string {
	GinkgoHelper()
	return filepath.Join(strings.TrimSpace(run("go", "list", "-m", "-f", "{{.Dir}}", module)), path)
}

// run runs a command in the repository and gives what it printed.
func run(name string, args ...string) string {
	GinkgoHelper()
	var stderr strings.Builder
	command := exec.Command(name, args...)
	command.Dir, command.Stderr = repository, &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, strings.Join(args, " "), &stderr)
	return string(out)
}
