// SPDX-License-Identifier: Apache-2.0

package release_admission_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const (
	managerNamespace = "holdfast-system"
	managerAccount   = "holdfast-manager"
	managerUser      = "system:serviceaccount:" + managerNamespace + ":" + managerAccount
)

// The forms of the guard that a spec can choose beside the modes.
const (
	// shared is Deny where the reconciler shares the DaemonSet's pods.
	shared webhooks.ReleaseMode = "DenyShared"
	// dead ends every connection without an answer.
	dead webhooks.ReleaseMode = "Dead"
	// hung does not answer before the API server gives up.
	hung webhooks.ReleaseMode = "Hung"
)

// guard is the running webhook server.
var guard *switchboard

// switchboard is a webhook server with several guards on the same paths, of which one answers. It counts calls.
type switchboard struct {
	webhook.Server
	mu       sync.Mutex
	staging  webhooks.ReleaseMode
	active   webhooks.ReleaseMode
	handlers map[webhooks.ReleaseMode]map[string]http.Handler
	calls    map[string]int
}

// Register takes a handler of the guard that is being set up.
func (s *switchboard) Register(path string, handler http.Handler) {
	if s.handlers[s.staging] == nil {
		s.handlers[s.staging] = map[string]http.Handler{}
	}
	if len(s.handlers) == 1 {
		s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(path, w, r) }))
	}
	s.handlers[s.staging][path] = handler
}

func (s *switchboard) serve(path string, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	active := s.active
	s.calls[path]++
	s.mu.Unlock()
	switch active {
	case dead:
		panic(http.ErrAbortHandler)
	case hung:
		<-r.Context().Done()
	default:
		s.handlers[active][path].ServeHTTP(w, r)
	}
}

// use makes one guard answer until the spec ends.
func (s *switchboard) use(mode webhooks.ReleaseMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = mode
}

func (s *switchboard) callsTo(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

// startGuard starts the webhooks and the backend in a manager under the identity of the installation, and registers them
// by the rendered manifests.
func startGuard(ctx context.Context) {
	GinkgoHelper()
	install := envtest.WebhookInstallOptions{Paths: []string{filepath.Join(repository, "config/webhook/release.yaml")}}
	Expect(install.PrepWithoutInstalling()).To(Succeed())
	DeferCleanup(install.Cleanup)
	guard = &switchboard{
		Server: webhook.NewServer(webhook.Options{
			Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir}),
		handlers: map[webhooks.ReleaseMode]map[string]http.Handler{}, calls: map[string]int{}, active: webhooks.ReleaseModeDeny,
	}
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
	Expect(err).NotTo(HaveOccurred())
	secondpass.Wrap(identity, secondpass.LiveLists)
	mgr, err := secondpass.Start(func() (manager.Manager, error) {
		return manager.New(identity, manager.Options{
			Scheme: scheme, Logger: GinkgoLogr, WebhookServer: guard, Metrics: metricsserver.Options{BindAddress: "0"},
		})
	})
	Expect(err).NotTo(HaveOccurred())

	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	backend := whereabouts.New(whereabouts.Options{Namespaces: []string{poolNamespace}, Log: GinkgoLogr})
	Expect(backend.Setup(running, mgr)).To(Succeed())
	for _, mode := range []webhooks.ReleaseMode{webhooks.ReleaseModeOff, webhooks.ReleaseModeWarn, webhooks.ReleaseModeDeny, shared} {
		guard.staging = mode
		o := webhooks.ReleaseOptions{
			Mode: mode, ManagerUser: managerUser, Reservations: backend,
			DaemonSets: []types.NamespacedName{{Namespace: poolNamespace, Name: "whereabouts"}},
		}
		if mode == shared {
			o.Mode, o.ReconcilerInDaemonSet = webhooks.ReleaseModeDeny, new(true)
		}
		Expect(webhooks.SetupReleaseWebhooks(mgr, o)).To(Succeed())
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(Succeed()))
	})
	checkStarted := guard.StartedChecker()
	Eventually(func() error { return checkStarted(nil) }).Should(Succeed())
	for i := range install.ValidatingWebhooks {
		Expect(admin.Create(ctx, install.ValidatingWebhooks[i])).To(Succeed())
	}
	awaitCalls(ctx)
}

// awaitCalls waits until the API server knows the webhooks.
func awaitCalls(ctx context.Context) {
	GinkgoHelper()
	p := newPool(ctx)
	p.add(ctx, admin, 1, entry{SandboxID: "probe", PodRef: "default/probe"})
	reservation := p.reserve(ctx, 1, "default/probe")
	guard.use(webhooks.ReleaseModeWarn)
	Eventually(func(g Gomega) {
		g.Expect(admin.Delete(ctx, p.object(), client.DryRunAll)).To(Succeed())
		g.Expect(admin.Delete(ctx, reservation.DeepCopy(), client.DryRunAll)).To(Succeed())
		g.Expect(guard.callsTo(webhooks.IPPoolReleasePath)).NotTo(BeZero())
		g.Expect(guard.callsTo(webhooks.ReservationReleasePath)).NotTo(BeZero())
	}).Should(Succeed())
	Expect(admin.Delete(ctx, p.object())).To(Succeed())
	Expect(admin.Delete(ctx, reservation)).To(Succeed())
}
