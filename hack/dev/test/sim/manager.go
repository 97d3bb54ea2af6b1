// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// manager is one process of the manager.
type manager struct {
	w      *World
	name   string
	client *apiserver.Client
	clock  skewed
	hooks  *hooks
	cancel context.CancelFunc
	// informers are those of its caches.
	informers []*informer
	ended     chan struct{}
	// stale is the version of its first lists; empty for the present one.
	stale  string
	lock   *coordinationclient.CoordinationV1Client
	paused bool
	dead   bool
}

// startManager starts a process. The caches of a stale one begin with an earlier state.
func (w *World) startManager(stale uint64) *manager {
	w.mu.Lock()
	w.serial++
	m := &manager{w: w, name: fmt.Sprintf("manager-%d", len(w.managers)+1), hooks: &hooks{paths: map[string]http.Handler{}}, ended: make(chan struct{})}
	w.managers = append(w.managers, m)
	w.mu.Unlock()
	if now := w.server.Revision(); stale > 0 {
		m.stale = strconv.FormatUint(max(now-min(stale, now), w.oldestVersion()), 10)
	}
	var config *rest.Config
	config, m.client = w.restConfig(m.name, account("holdfast-system", app.Name, "", "", "", ""))
	m.lock = must(coordinationclient.NewForConfig(config))
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), w.log))
	m.cancel = cancel
	w.act(func() {
		defer close(m.ended)
		mgr, err := app.New(ctx, config, m.configuration(), app.Options{Log: w.log, Clock: &m.clock, Adjust: m.adjust, SimulatedQueues: true})
		if err == nil && ctx.Err() == nil {
			err = mgr.Start(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case w.plan.Replicas && err != nil && strings.Contains(err.Error(), "leader election lost"):
			w.note("%s lost the lead, and ended", m.name)
			w.locked(m.kill)
			w.startAgain()
		case err != nil && strings.Contains(err.Error(), "timed out waiting for cache") && m.isPaused():
			w.note("%s stood still for longer than its caches may take, and ended", m.name)
			w.locked(m.kill)
		case err != nil:
			w.violate("running", "%s ended by itself: %v", m.name, err)
		}
	})
	return m
}

func (m *manager) configuration() *configv1alpha1.ManagerConfiguration {
	evidence := configv1alpha1.EvidenceKubelet
	if m.w.plan.Agents {
		evidence = configv1alpha1.EvidenceAgent
	}
	return &configv1alpha1.ManagerConfiguration{
		Evidence: evidence,
		// The default without agents is Warn, which lets whereabouts' reconciler have what it takes for free.
		UnsafeReleases: configv1alpha1.UnsafeReleases{Mode: configv1alpha1.ReleaseModeDeny},
		Server:         configv1alpha1.Server{MetricsBindAddress: "0", HealthProbeBindAddress: "0"},
		Controller:     configv1alpha1.Controller{LeaderElection: new(m.w.plan.Replicas), Concurrency: new(m.w.plan.Workers), QPS: new(float32(0))},
	}
}

// leaseDuration is how long a leader is waited for.
const leaseDuration = 2 * time.Minute

// adjust removes what a bubble cannot have: sockets and discovery.
func (m *manager) adjust(o *ctrlmanager.Options) {
	o.WebhookServer = m.hooks
	o.Metrics = metricsserver.Options{BindAddress: "0"}
	o.HealthProbeBindAddress = "0"
	o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return m.w.server.Mapper(), nil }
	// The times are longer than the shipped ones, with which most of all steps would renew the Lease.
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = new(leaseDuration), new(leaseDuration*3/4), new(leaseDuration/4)
	o.LeaderElectionResourceLockInterface = &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "holdfast-system", Name: app.Name}, Client: m.lock,
		LockConfig: resourcelock.ResourceLockConfig{Identity: m.name}}
	o.NewCache = newStartingCache
	o.Cache.NewInformer = func(source cache.ListerWatcher, _ runtime.Object, _ time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		i := newInformer(source, indexers, func() string { return m.stale })
		m.w.locked(func() { m.informers = append(m.informers, i) })
		return i
	}
}

// kill ends the process at once: its further steps have no effect.
func (m *manager) isPaused() bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.paused
}

func (m *manager) kill() {
	m.dead = true
	m.client.Kill()
	informers := slices.Clone(m.informers)
	if !slices.ContainsFunc(informers, func(i *informer) bool { return !i.synced.isPastFor(time.Second) }) {
		m.cancel()
		return
	}
	// A manager that is told to stop before it has seen that its caches are synced spins until then (controller-runtime, runnableGroup.Start), and no
	// virtual time passes meanwhile.
	m.w.act(func() {
		for _, i := range informers {
			i.abandon()
		}
		rested(context.Background(), time.Second)
		m.cancel()
	})
}

// hooks is a webhook server without a socket.
type hooks struct {
	paths map[string]http.Handler
}

var _ webhook.Server = (*hooks)(nil)

// NeedLeaderElection is false.
func (*hooks) NeedLeaderElection() bool { return false }

// Register keeps a handler.
func (h *hooks) Register(path string, handler http.Handler) { h.paths[path] = handler }

// Start waits.
func (*hooks) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// StartedChecker is always content.
func (*hooks) StartedChecker() healthz.Checker { return healthz.Ping }

// WebhookMux is not used.
func (*hooks) WebhookMux() *http.ServeMux { return http.NewServeMux() }

// webhook is the handler in the newest running manager; nil without one.
func (w *World) webhook(c admissionregistrationv1.WebhookClientConfig) http.Handler {
	if c.Service == nil || c.Service.Path == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.managers) - 1; i >= 0; i-- {
		if m := w.managers[i]; !m.dead && !m.paused {
			return m.hooks.paths[*c.Service.Path]
		}
	}
	w.usage.webhookMissed = w.since()
	return nil
}

// restartsWithin is how soon a process that ended runs again.
const restartsWithin = 3 * time.Second

// crash kills the manager after one of its writes.
type crash struct {
	after int
	// of says which writes count; nil counts all.
	of func(apiserver.Change) bool
}

// wrote is called for each write of a manager, with the world locked.
func (c *crash) wrote(w *World, client string) {
	if c.after--; c.after > 0 {
		return
	}
	w.crash = nil
	w.faults[CrashAfterWrite]++
	for _, m := range w.managers {
		if m.name == client && !m.dead {
			m.kill()
		}
	}
	w.act(w.startAgain)
}

// startAgain restarts a manager that ended, as the kubelet does.
func (w *World) startAgain() {
	if rested(w.ctx, restartsWithin) && w.turn(w.ctx, "the manager starts again") && !w.areEnough() {
		w.startManager(0)
	}
}

// areEnough says whether the planned number of managers runs: another leader may have started meanwhile.
func (w *World) areEnough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	enough, run := 1, 0
	if w.plan.Replicas {
		enough = 2
	}
	for _, m := range w.managers {
		if !m.dead && !m.paused {
			run++
		}
	}
	return run >= enough
}

var errNoManager = errors.New("no manager runs")

// leader is the newest manager that runs.
func (w *World) leader() (*manager, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.managers) - 1; i >= 0; i-- {
		if !w.managers[i].dead {
			return w.managers[i], nil
		}
	}
	return nil, errNoManager
}
