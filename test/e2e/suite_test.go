// SPDX-License-Identifier: Apache-2.0

// Package e2e_test takes the installation as users get it: rendered by kustomize, decoded strictly into the real types,
// applied to a real control plane, and run under the identity that it installs.
package e2e_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	// soon bounds what needs no waiting but for a busy machine.
	soon = time.Minute
	// leaderSoon bounds the start of a manager until it leads: its caches, and two tries for the Lease.
	leaderSoon   = 2 * time.Minute
	pollInterval = 100 * time.Millisecond

	repository = "../.."
	namespace  = "holdfast-system"
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything.
	admin client.Client
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Installation")
}

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)

	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{
			moduleFile("github.com/cert-manager/cert-manager", "deploy/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml"),
		},
		ServiceAccountAdmission: true,
		Log:                     GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

// moduleFile is a path inside the folder of a module that go.mod names.
func moduleFile(module, path string) string {
	GinkgoHelper()
	return filepath.Join(run("go", "list", "-m", "-f", "{{.Dir}}", module), path)
}

// run runs a command in the repository and gives what it printed.
func run(name string, args ...string) string {
	GinkgoHelper()
	out, err := process.Output(context.Background(), repository, name, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}
