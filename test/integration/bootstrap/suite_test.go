// SPDX-License-Identifier: Apache-2.0

// Package bootstrap_test shows that a cluster starts, and heals, with Holdfast installed and no manager alive: everything
// that it registers with the API server is there, as rendered, and every call to it goes to an address that refuses it or
// never answers. Nodes, agents and operators write under identities of their own.
package bootstrap_test

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
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

const (
	// soon bounds what takes milliseconds on an idle machine, and calls that nobody answers.
	soon = time.Minute
	// startTimeout bounds the start of the control plane, and an installation of everything.
	startTimeout = 5 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository = "../../.."
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything. Its token is of no node.
	admin  client.Client
	scheme = runtime.NewScheme()
)

func TestBootstrap(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Bootstrap safety")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	crds, err := nodecrds.Paths(ctx)
	Expect(err).NotTo(HaveOccurred())
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: append(crds,
			moduleFile("github.com/cert-manager/cert-manager", "deploy/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml"),
			filepath.Join(repository, "config/crd/bases"),
		),
		ServiceAccountAdmission: true,
		NodeMonitorGracePeriod:  time.Hour,
		Log:                     GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	createAccounts(ctx)
}, NodeTimeout(startTimeout))

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
