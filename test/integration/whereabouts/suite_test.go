// SPDX-License-Identifier: Apache-2.0

// Package whereabouts_test runs the whereabouts backend against a real API server.
package whereabouts_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	corev1 "k8s.io/api/core/v1"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what takes milliseconds on an idle machine.
	soon = 30 * time.Second
	// startTimeout bounds the start of the control plane.
	startTimeout = 4 * time.Minute
	// settled is how long something that must not happen is watched for.
	settled = 300 * time.Millisecond

	pollInterval = 20 * time.Millisecond

	whereaboutsModule = "github.com/k8snetworkplumbingwg/whereabouts"
)

var (
	plane *controlplane.ControlPlane
	// admin is the administrator's client: a real API server, no cache.
	admin client.Client
	crds  []string
)

func TestWhereabouts(t *testing.T) {
	RegisterFailHandler(Fail)
	name, suite, reporter := secondpass.Configuration("whereabouts backend")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

var _ = BeforeSuite(func(ctx context.Context) {
	logf.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(secondpass.Patience(soon))
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyDuration(settled)
	SetDefaultConsistentlyPollingInterval(pollInterval)

	for _, kind := range []string{"ippools", "overlappingrangeipreservations", "nodeslicepools"} {
		crds = append(crds, filepath.Join(moduleDir(ctx, whereaboutsModule), "doc", "crds", "whereabouts.cni.cncf.io_"+kind+".yaml"))
	}
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{CRDs: crds, Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(startTimeout))

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	Expect(corev1.AddToScheme(scheme)).To(Succeed())
	Expect(wb.AddToScheme(scheme)).To(Succeed())
	return scheme
}

// moduleDir is where Go keeps a module that go.mod names.
func moduleDir(ctx context.Context, module string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}
