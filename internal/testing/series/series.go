// SPDX-License-Identifier: Apache-2.0

// Package series reads the metrics that the process serves. The series of a metric are chosen by values of labels, in any order.
package series

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Sum is the sum of all series of a metric that have these values of labels; zero without one. That of a histogram is the sum of its samples.
func Sum(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	return read(t, name, labels).sum
}

// Value is the value of the only series of a metric that has these values of labels. Any other number of series fails the test.
func Value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	found := read(t, name, labels)
	if found.series != 1 {
		t.Fatalf("%d series of %s have the labels %q, expected one", found.series, name, labels)
	}
	return found.sum
}

// Count is how many samples the histograms of a metric that have these values of labels have.
func Count(t testing.TB, name string, labels ...string) uint64 {
	t.Helper()
	return read(t, name, labels).samples
}

type total struct {
	series  int
	sum     float64
	samples uint64
}

func read(t testing.TB, name string, labels []string) (found total) {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			values := sets.New[string]()
			for _, label := range m.GetLabel() {
				values.Insert(label.GetValue())
			}
			if values.HasAll(labels...) {
				found.series++
				found.sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
				found.samples += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return found
}
