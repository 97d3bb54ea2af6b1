// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// reasonReporter reports why queries get no response, once when a reason begins and once when it ends: by an event on the Node, a log line and
// a gauge.
type reasonReporter struct {
	recorder events.EventRecorder
	nodeName string
	log      logr.Logger
	standing sets.Set[v1alpha1.Reason]
}

// update takes the reasons of a round, each with the number of queries that wait for it; zero without a query.
func (r *reasonReporter) update(counts map[v1alpha1.Reason]int, messages map[v1alpha1.Reason]string, me self) {
	node := nodeReference(r.nodeName, me.nodeObject)
	for reason, count := range counts {
		metrics.AgentWithoutResponse.WithLabelValues(string(reason)).Set(float64(count))
		if !r.standing.Has(reason) {
			r.log.Info("Not responding", "reason", reason, "queries", count, "why", messages[reason])
			r.recorder.Eventf(node, nil, corev1.EventTypeWarning, string(reason), "Respond",
				"the Holdfast agent does not respond to queries about sandboxes: %s", messages[reason])
		}
	}
	reasons := sets.KeySet(counts)
	for reason := range r.standing.Difference(reasons) {
		metrics.AgentWithoutResponse.WithLabelValues(string(reason)).Set(0)
		r.log.Info("Responding again", "reason", reason)
		r.recorder.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonResponding), "Respond",
			"the Holdfast agent responds to queries about sandboxes again; it did not because of %s", reason)
	}
	r.standing = reasons
}
