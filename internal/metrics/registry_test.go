// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// forbiddenLabels would make the number of time series grow with the cluster.
var forbiddenLabels = []string{"pod", "pod_name", "pod_uid", "node", "node_name", "node_uid", "namespace", "name", "uid", "ip"}

var descriptor = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*?)", (?:unit: "[^"]*", )?constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

func TestEveryMetricFollowsTheRules(t *testing.T) {
	if len(collectors) == 0 {
		t.Fatal("no metric is registered")
	}
	seen := map[string]bool{}
	for _, collector := range collectors {
		for _, desc := range describe(collector) {
			parts := descriptor.FindStringSubmatch(desc)
			if parts == nil {
				t.Fatalf("the form of a metric's description has changed: %s", desc)
			}
			name, help, labels := parts[1], parts[2], strings.Split(parts[3], ",")
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
			if !strings.HasPrefix(name, Prefix) {
				t.Errorf("%s does not start with %s", name, Prefix)
			}
			if len(help) < 20 || !strings.HasSuffix(help, ".") {
				t.Errorf("%s has no sentence of help: %q", name, help)
			}
			checkLabels(t, name, labels)
			checkSuffix(t, name, collector)
		}
	}
}

func TestEveryMetricIsServedByTheManager(t *testing.T) {
	for _, collector := range collectors {
		already := prometheus.AlreadyRegisteredError{}
		if err := ctrlmetrics.Registry.Register(collector); err == nil {
			ctrlmetrics.Registry.Unregister(collector)
			t.Errorf("%v was not registered", describe(collector))
		} else if err.Error() != already.Error() {
			t.Errorf("%v: %v", describe(collector), err)
		}
	}
}

func describe(collector prometheus.Collector) []string {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		collector.Describe(descs)
	}()
	var texts []string
	for desc := range descs {
		texts = append(texts, desc.String())
	}
	return texts
}

func checkLabels(t *testing.T, name string, labels []string) {
	t.Helper()
	for _, label := range labels {
		if slices.Contains(forbiddenLabels, label) {
			t.Errorf("%s has the label %q, whose values are without bound", name, label)
		}
	}
}

// checkSuffix holds names to the conventions of Prometheus (https://prometheus.io/docs/practices/naming).
func checkSuffix(t *testing.T, name string, collector prometheus.Collector) {
	t.Helper()
	total := strings.HasSuffix(name, "_total")
	switch collector.(type) {
	case *prometheus.CounterVec, prometheus.Counter:
		_, gauge := collector.(prometheus.Gauge)
		if !gauge && !total {
			t.Errorf("%s is a counter and does not end in _total", name)
		}
		if gauge && total {
			t.Errorf("%s is a gauge and ends in _total", name)
		}
	case *prometheus.GaugeVec:
		if total {
			t.Errorf("%s is a gauge and ends in _total", name)
		}
	}
}
