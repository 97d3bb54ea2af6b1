// SPDX-License-Identifier: Apache-2.0

// Package metrics holds every metric of Holdfast by name. Each is registered once, with controller-runtime's registry,
// so that one endpoint serves them together with those of the workqueues, the client and the admission server.
//
// No metric carries the name of a pod or a node: their number is without bound, and they are in the records, the
// events and the log. The value of a label named "reason" is one of the reasons in api/v1alpha1.
//
// A file holds the metrics of one area. A new one is declared as
//
//	var Releases = counters("releases_total", "Addresses that Holdfast released, by backend and reason.", "backend", "reason")
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

// counters registers a counter for each combination of values of the labels. Its name is given without Prefix, here and below.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(prometheus.NewCounterVec(prometheus.CounterOpts{Name: Prefix + name, Help: help}, labels))
}

func counter(name, help string) prometheus.Counter {
	return register(prometheus.NewCounter(prometheus.CounterOpts{Name: Prefix + name, Help: help}))
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(gaugesAtScrape(name, help, labels...))
}

func gauge(name, help string) prometheus.Gauge {
	return register(prometheus.NewGauge(prometheus.GaugeOpts{Name: Prefix + name, Help: help}))
}

// gaugesAtScrape are for an AtScrape, which is registered in their place.
func gaugesAtScrape(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: Prefix + name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: Prefix + name, Help: help, Buckets: buckets}, labels))
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(prometheus.NewHistogram(prometheus.HistogramOpts{Name: Prefix + name, Help: help, Buckets: buckets}))
}
