// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// replica is a manager in this process, under the ServiceAccount of the installation.
type replica struct {
	health, certDir string
	// webhooks is the address that the API server calls.
	webhooks string
	stop     func()

	mu  sync.Mutex
	log []string
}

// startReplica starts a manager, without a serving certificate unless it is certified, and stops it after the spec.
func startReplica(ctx context.Context, certified bool) *replica {
	GinkgoHelper()
	r := &replica{certDir: GinkgoT().TempDir()}
	if certified {
		r.certify()
	}
	r.start(ctx)
	return r
}

// start starts the manager with what is in certDir.
func (r *replica) start(ctx context.Context) {
	GinkgoHelper()
	port := fixture.FreePort()
	r.health, r.webhooks = freeAddress(), fmt.Sprintf("127.0.0.1:%d", port)
	identity, err := plane.ServiceAccountConfig(ctx, namespace, app.Name, nil)
	Expect(err).NotTo(HaveOccurred())
	c := &configv1alpha1.ManagerConfiguration{Server: configv1alpha1.Server{
		WebhookHost: "127.0.0.1", WebhookPort: new(int32(port)), CertDir: r.certDir,
		MetricsBindAddress: configv1alpha1.ServeNothing, HealthProbeBindAddress: r.health,
	}}
	// The manager outlives the node that starts it.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	mgr, err := app.New(running, identity, c, app.Options{Log: funcr.New(r.add, funcr.Options{})})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
	})
	DeferCleanup(r.stop)
}

func (r *replica) add(prefix, args string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, prefix+" "+args)
	fmt.Fprintln(GinkgoWriter, prefix, args)
}

// logged are the lines with a text in them.
func (r *replica) logged(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, line := range r.log {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (r *replica) certify() {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(r.certDir, "tls.key"), key, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(r.certDir, "tls.crt"), certificate, 0o600)).To(Succeed())
}

// status is that of a probe; 0 without a response.
func (r *replica) status(ctx context.Context, path string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.health+path, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

func freeAddress() string {
	GinkgoHelper()
	return fmt.Sprintf("127.0.0.1:%d", fixture.FreePort())
}

// leader is the identity in the Lease; empty where no replica leads.
func leader(ctx context.Context) string {
	var lease coordinationv1.Lease
	if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: app.Name}, &lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

var _ = Describe("The manager under the installed account", Ordered, func() {
	BeforeAll(func(ctx context.Context) { apply(ctx, render("config/default")) })

	It("is alive without a certificate, and ready only with one", func(ctx context.Context) {
		r := startReplica(ctx, false)
		Eventually(ctx, func() int { return r.status(ctx, "/healthz") }).Should(Equal(http.StatusOK))
		Eventually(func() []string { return r.logged("Waiting for the serving certificate") }).ShouldNot(BeEmpty())
		Expect(r.status(ctx, "/readyz")).To(Equal(http.StatusInternalServerError))
		r.certify()
		Eventually(ctx, func() int { return r.status(ctx, "/readyz") }).Should(Equal(http.StatusOK))
		Expect(r.logged("Effective configuration")).To(HaveLen(1))
	})

	It("is ready in every replica, leads in one, and hands over when it stops", func(ctx context.Context) {
		first := startReplica(ctx, true)
		Eventually(ctx, func() string { return leader(ctx) }).WithTimeout(leaderSoon).ShouldNot(BeEmpty())
		holder := leader(ctx)
		second := startReplica(ctx, true)
		for _, r := range []*replica{first, second} {
			Eventually(ctx, func() int { return r.status(ctx, "/readyz") }).Should(Equal(http.StatusOK))
		}
		Expect(leader(ctx)).To(Equal(holder))

		first.stop()
		Eventually(ctx, func() string { return leader(ctx) }).WithTimeout(leaderSoon).ShouldNot(Or(BeEmpty(), Equal(holder)))
		second.stop()
		for _, r := range []*replica{first, second} {
			Expect(r.logged("forbidden")).To(BeEmpty(), "the installed role lacks something")
		}
	})
})
