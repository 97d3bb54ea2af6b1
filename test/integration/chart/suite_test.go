// SPDX-License-Identifier: Apache-2.0

// Package chart_test installs, upgrades and uninstalls the Helm chart with the real helm on a real control plane. Nodes have no
// kubelet: the pod of the hook is run by the suite, as the real command, with the real token of the pod's own account.
package chart_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	// specTimeout bounds a spec with two uninstallations, each of which proves for half a minute.
	specTimeout = 5 * time.Minute
	// startTimeout bounds the start of the control plane, and the build of helm and of the command.
	startTimeout = 20 * time.Minute
	pollInterval = 50 * time.Millisecond

	repository = "../../.."
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything.
	admin  client.Client
	scheme = runtime.NewScheme()
	// binary is the command of the manager's image, helmBinary Helm's.
	binary, helmBinary string
)

func TestChart(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Chart")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	helmBinary = run("go", "tool", "-n", "-modfile=hack/tools/helm/go.mod", "helm")
	binary = filepath.Join(GinkgoT().TempDir(), "manager")
	run("go", "build", "-o", binary, "./cmd/manager")
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{
			moduleFile("github.com/cert-manager/cert-manager", "deploy/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml"),
		},
		NodeMonitorGracePeriod: time.Hour,
		NodeStartupGracePeriod: time.Hour,
		Log:                    GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(startTimeout))

// moduleFile is a path inside the folder of a module that go.mod names.
func moduleFile(module, path string) string {
	GinkgoHelper()
	return filepath.Join(run("go", "list", "-m", "-f", "{{.Dir}}", module), path)
}

// run runs a command in the repository and gives what it printed.
func run(name string, args ...string) string {
	GinkgoHelper()
	var stderr strings.Builder
	command := exec.Command(name, args...)
	command.Dir, command.Stderr = repository, &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, strings.Join(args, " "), &stderr)
	return strings.TrimSpace(string(out))
}

// helm runs it on the control plane, in the namespace of the release, and gives all that it printed.
func helm(args ...string) (string, error) {
	GinkgoHelper()
	home := GinkgoT().TempDir()
	command := exec.Command(helmBinary, append(args, "--namespace="+own, "--kubeconfig="+plane.Kubeconfig())...)
	command.Dir = repository
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := command.CombinedOutput()
	GinkgoWriter.Printf("helm %s\n%s\n", strings.Join(args, " "), out)
	return string(out), err
}
