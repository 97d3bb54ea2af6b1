// SPDX-License-Identifier: Apache-2.0

package app

import (
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// shadowCheck is the name of a readiness check that never fails: /readyz?verbose shows it.
const shadowCheck = "mode-shadow-nothing-is-guarded"

// enterMode is where the mode is read. In Shadow, what acts is given a Reporter, and every client a gate; in Guard nothing.
func enterMode(mode configv1alpha1.Mode, restConfig *rest.Config, o *Options) {
	for _, known := range []configv1alpha1.Mode{configv1alpha1.ModeGuard, configv1alpha1.ModeShadow} {
		metrics.Mode.WithLabelValues(string(known)).Set(0)
	}
	metrics.Mode.WithLabelValues(string(mode)).Set(1)
	if mode != configv1alpha1.ModeShadow {
		return
	}
	o.shadow = shadow.NewReporter()
	o.Log = o.Log.WithValues("mode", string(mode))
	shadow.Guard(restConfig)
	o.Log.Info("SHADOW MODE: nothing is guarded. What the manager would do is reported (log, events, holdfast_shadow_total), and nothing is protected, refused, " +
		"released, repaired or deleted. Pods that were protected in mode Guard are released when their sandboxes are proven gone; their addresses stay in the pools")
}

// whereaboutsBackend is what the rest of the manager has of whereabouts.
type whereaboutsBackend interface {
	ipam.Repairable
	ipam.Reviewable
	ipam.Sliced
}

// actingOrNot is the manager and the backend that everything is set up with.
func actingOrNot(mgr manager.Manager, backend *whereabouts.Backend, o Options) (manager.Manager, whereaboutsBackend) {
	if o.shadow == nil {
		return mgr, backend
	}
	return shadow.Manager(mgr), whereabouts.NewReporting(backend, o.shadow)
}
