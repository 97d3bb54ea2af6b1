// SPDX-License-Identifier: Apache-2.0

// Package releaseadmission runs the webhooks that judge removals, as rendered and under the manager's real RBAC identity, on a real
// control plane: tokens are those of pods of whereabouts' own DaemonSet and Deployment. The judgments themselves are those of
// internal/releaseguard and webhooks, which their unit tests show.
package releaseadmission

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const (
	managerNamespace, managerAccount = "holdfast-system", "holdfast-manager"
	nodeA, nodeB                     = "node-a", "node-b"
	poolNamespace                    = "kube-system"
)

var admin = fixture.Admin

var suite = fixture.NewSuite("releaseadmission", fixture.PlaneTwo, func(ctx context.Context) {
	createNode(ctx, nodeA)
	createNode(ctx, nodeB)
	fixture.CreateNamespace(ctx, managerNamespace)
	fixture.Apply(ctx, fixture.Folder("config/rbac").Objects())
	for _, file := range []string{"doc/crds/daemonset-install.yaml", "doc/crds/reconciler-deployment.yaml"} {
		content, err := os.ReadFile(fixture.ModulePath("github.com/k8snetworkplumbingwg/whereabouts", file))
		Expect(err).NotTo(HaveOccurred())
		// The manifests' tag is latest, from which it is unknown whether the reconciler shares the DaemonSet's pods.
		fixture.Apply(ctx, fixture.Decode(bytes.ReplaceAll(content, []byte("whereabouts:latest"), []byte("whereabouts:v0.9.4"))))
	}
	startGuard(ctx)
})

// The forms of the guard that a spec can choose beside Deny.
const (
	// dead ends every connection without a response.
	dead configv1alpha1.ReleaseMode = "Dead"
	// hung does not respond before the API server gives up.
	hung configv1alpha1.ReleaseMode = "Hung"
)

// guard is the running webhook server. It counts calls, and fails them where a spec asks for that.
var guard *switchboard

type switchboard struct {
	webhook.Server
	mu    sync.Mutex
	mode  configv1alpha1.ReleaseMode
	calls map[string]int
}

// Register takes a handler.
func (s *switchboard) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		mode := s.mode
		s.calls[path]++
		s.mu.Unlock()
		switch mode {
		case dead:
			panic(http.ErrAbortHandler)
		case hung:
			<-r.Context().Done()
		default:
			handler.ServeHTTP(w, r)
		}
	}))
}

// use chooses a form until the spec ends.
func (s *switchboard) use(mode configv1alpha1.ReleaseMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
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
	install := envtest.WebhookInstallOptions{Paths: []string{fixture.Path("config/webhook/release.yaml")}}
	Expect(install.PrepWithoutInstalling()).To(Succeed())
	DeferCleanup(install.Cleanup)
	guard = &switchboard{calls: map[string]int{}, Server: webhook.NewServer(webhook.Options{
		Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir})}
	fixture.RunManager(ctx, func(running context.Context) (manager.Manager, error) {
		mgr, err := manager.New(fixture.AccountConfig(ctx, managerNamespace, managerAccount, nil), manager.Options{
			Scheme: fixture.Scheme, Logger: GinkgoLogr, WebhookServer: guard, Metrics: metricsserver.Options{BindAddress: "0"}})
		if err != nil {
			return nil, err
		}
		backend := whereabouts.New(whereabouts.Options{Namespaces: []string{poolNamespace}, Log: GinkgoLogr})
		return mgr, errors.Join(backend.Setup(running, mgr), webhooks.SetupReleaseWebhooks(mgr, webhooks.ReleaseOptions{
			Mode: configv1alpha1.ReleaseModeDeny, ManagerUser: "system:serviceaccount:" + managerNamespace + ":" + managerAccount, Backend: backend,
			DaemonSets: []types.NamespacedName{{Namespace: poolNamespace, Name: "whereabouts"}},
		}))
	})
	started := guard.StartedChecker()
	Eventually(ctx, func() error { return started(nil) }).Should(Succeed())
	for i := range install.ValidatingWebhooks {
		Expect(admin.Create(ctx, install.ValidatingWebhooks[i])).To(Succeed())
	}
	p := newPool(ctx)
	p.add(ctx, admin, 1, entry{"probe", "default/probe"})
	r := story.Reserve(ctx, p.ip(1), "default/probe")
	Eventually(ctx, func() int {
		_ = errors.Join(admin.Delete(ctx, p.object(), client.DryRunAll), admin.Delete(ctx, r.DeepCopy(), client.DryRunAll)) // refused or not, the webhooks are called or not
		return min(guard.callsTo(webhooks.IPPoolReleasePath), guard.callsTo(webhooks.ReservationReleasePath))
	}).ShouldNot(BeZero())
}
