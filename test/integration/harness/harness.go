// SPDX-License-Identifier: Apache-2.0

// Package harness shows that a control plane does what the other suites take for granted (internal/testing/controlplane).
package harness

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var suite = fixture.NewSuite("harness", fixture.PlaneTwo, nil)

var _ = suite.Describe("A control plane", func() {
	It("answers nothing while its API server is paused, and goes on afterwards", func(ctx context.Context) {
		read := func(ctx context.Context) error {
			return fixture.Admin.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
		}
		DeferCleanup(func() { Expect(fixture.Plane.ResumeAPIServer()).To(Succeed()) }) // of a spec that fails, for the others
		Expect(read(ctx)).To(Succeed())
		Expect(fixture.Plane.PauseAPIServer()).To(Succeed())
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		Expect(read(short)).To(MatchError(context.DeadlineExceeded))
		Expect(fixture.Plane.ResumeAPIServer()).To(Succeed())
		Expect(read(ctx)).To(Succeed())
	})

	It("that cannot start shows the log of the component that failed, and stops the others", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		_, err := controlplane.Start(ctx, controlplane.Options{WorkDir: dir, ControllerManagerArgs: map[string]string{"controllers": "nonsense"}})
		Expect(err).To(MatchError(And(ContainSubstring("waiting for kube-controller-manager"), ContainSubstring("nonsense"),
			ContainSubstring(filepath.Join(dir, "logs", "kube-controller-manager.log")))))
		files, err := filepath.Glob(filepath.Join(dir, "run", "*.pid"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
			Expect(err).NotTo(HaveOccurred())
			Expect(syscall.Kill(pid, 0)).To(MatchError(syscall.ESRCH), file)
		}
	})
})
