// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// stopGrace is more than draining and requests in flight take together, so that a kill means that something hangs.
const stopGrace = 90 * time.Second

var _ = Describe("The command", Ordered, func() {
	var binary, folder string

	BeforeAll(func(ctx context.Context) {
		apply(ctx, render("config/default"))
		folder = GinkgoT().TempDir()
		binary = filepath.Join(folder, "manager")
		run("go", "build", "-o", binary, "./cmd/manager")
	})

	write := func(name, content string) string {
		GinkgoHelper()
		path := filepath.Join(folder, name)
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		return path
	}

	start := func(log string, args ...string) *process.Process {
		GinkgoHelper()
		p, err := process.Start(process.Options{Path: binary, Args: args, LogFile: filepath.Join(folder, log)})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return p.Kill() })
		return p
	}

	It("runs until SIGTERM, drains, gives the Lease back and ends in good order", func(ctx context.Context) {
		r := &replica{health: freeAddress(), certDir: filepath.Join(folder, "certs")}
		Expect(os.MkdirAll(r.certDir, 0o700)).To(Succeed())
		r.certify()
		identity, err := plane.ServiceAccountConfig(ctx, namespace, app.Name, nil)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err := controlplane.Kubeconfig(identity)
		Expect(err).NotTo(HaveOccurred())
		config := fmt.Sprintf("apiVersion: config.holdfast.dev/v1alpha1\nkind: ManagerConfiguration\nserver: {webhookPort: %d, certDir: %s, metricsBindAddress: '0', healthProbeBindAddress: '%s'}\n",
			fixture.FreePort(), r.certDir, r.health)
		p := start("manager.log", "--kubeconfig", write("kubeconfig", string(kubeconfig)), "--config", write("config.yaml", config))

		Eventually(ctx, func() int { return r.status(ctx, "/readyz") }).Should(Equal(http.StatusOK))
		Eventually(ctx, func() string { return leader(ctx) }).WithTimeout(leaderSoon).ShouldNot(BeEmpty())
		// A start that is cut off is another story: its informers say that they never synced.
		Eventually(ctx, func() bool { return started(p.LogFile()) }).Should(BeTrue())
		Expect(p.Stop(stopGrace)).To(Succeed())
		Expect(leader(ctx)).To(BeEmpty())
		log, err := os.ReadFile(p.LogFile())
		Expect(err).NotTo(HaveOccurred())
		_, end, found := strings.Cut(string(log), "Stopping: not ready from now on")
		Expect(found).To(BeTrue())
		Expect(wrong(end)).To(BeEmpty())
	})
})

// started is whether each controller that has sources has workers too.
func started(logFile string) bool {
	GinkgoHelper()
	log, err := os.ReadFile(logFile)
	Expect(err).NotTo(HaveOccurred())
	sources, workers := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(log)) {
		var entry struct{ Msg, Controller string }
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue
		}
		switch entry.Msg {
		case "Starting EventSource":
			sources[entry.Controller] = true
		case "Starting workers":
			workers[entry.Controller] = true
		}
	}
	return len(sources) > 1 && len(sources) == len(workers)
}

// wrong are the errors of a log, but for what the end cuts off: a pass over one object, which the next leader makes again, and a renewal of the Lease,
// which client-go reports as an error.
func wrong(log string) []string {
	return slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool {
		isRenewal := strings.Contains(line, `"msg":"Error retrieving lease lock"`) && strings.Contains(line, context.Canceled.Error())
		return !strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"msg":"Reconciler error"`) || isRenewal
	})
}
