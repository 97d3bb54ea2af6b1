// SPDX-License-Identifier: Apache-2.0

// Package metrics holds every metric of Holdfast by name. Each is registered once, with controller-runtime's registry,
// so that one endpoint serves them together with those of the workqueues, the client and the admission server.
//
// No metric carries the name of a pod or a node: their number is without bound, and they are in the records, the
// events and the log. The value of a label named "reason" is one of the reasons in api/v1alpha1.
//
// A file holds the metrics of one area. A new one is declared as
//
//	var Releases = register(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_…", Help: "…"}, []string{"reason"}))
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Prefix starts the name of every metric.
const Prefix = "holdfast_"

// collectors are what register was given, for the test of the rules above.
var collectors []prometheus.Collector

// register adds a collector to the registry that the manager serves, and returns it. It panics on a name that is
// already there, which is a mistake in the program.
func register[C prometheus.Collector](collector C) C {
	ctrlmetrics.Registry.MustRegister(collector)
	collectors = append(collectors, collector)
	return collector
}
