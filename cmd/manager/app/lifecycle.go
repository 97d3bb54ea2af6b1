// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// lifecycle is where the process is between its start and its end.
type lifecycle struct {
	synced   atomic.Bool
	draining atomic.Bool
}

// Start is run, in every replica, after the caches have synced.
func (l *lifecycle) Start(ctx context.Context) error {
	l.synced.Store(true)
	<-ctx.Done()
	return nil
}

// NeedLeaderElection is false: every replica has caches.
func (*lifecycle) NeedLeaderElection() bool { return false }

func (l *lifecycle) checkSynced(*http.Request) error {
	if !l.synced.Load() {
		return errors.New("the caches are not filled yet")
	}
	return nil
}

func (l *lifecycle) checkStaying(*http.Request) error {
	if l.draining.Load() {
		return errors.New("the manager is stopping")
	}
	return nil
}

// endConnections makes the server end a connection after the next response on it while the manager drains. The API
// server keeps connections to a webhook whose pod is terminating (kubernetes#127335) and uses another replica only
// when it has to dial anew. For HTTP/2 the header becomes a GOAWAY, with which nothing in flight is lost.
func (l *lifecycle) endConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// addChecks registers /healthz, which reports that the process runs, and /readyz, which reports that its webhooks serve.
func addChecks(mgr manager.Manager, server webhook.Server, state *lifecycle, o Options) error {
	if err := mgr.Add(state); err != nil {
		return fmt.Errorf("adding the readiness of the caches: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	checks := map[string]healthz.Checker{
		"webhooks": server.StartedChecker(),
		"caches":   state.checkSynced,
		"staying":  state.checkStaying,
	}
	if o.shadow != nil {
		checks[shadowCheck] = healthz.Ping
	}
	for name, check := range checks {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness check %s: %w", name, err)
		}
	}
	return nil
}

// drainingManager puts a period of draining between the order to stop and the stop.
type drainingManager struct {
	manager.Manager
	state  *lifecycle
	period time.Duration
}

// Start runs the manager until ctx is done and the draining is over, or until the manager fails.
func (m *drainingManager) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	forget := context.AfterFunc(ctx, func() {
		defer stop()
		m.state.draining.Store(true)
		m.GetLogger().Info("Stopping: not ready from now on, ending connections", "drainPeriod", m.period.String())
		over := time.NewTimer(m.period)
		defer over.Stop()
		select {
		case <-over.C:
		case <-running.Done():
		}
	})
	defer forget()
	return m.Manager.Start(running)
}
