// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// silences says, once when it begins and once when it ends, why queries get no response: an event on the Node, a line in the log, a
// gauge. The GuardedNode's condition is written with its status.
type silences struct {
	recorder events.EventRecorder
	nodeName string
	log      logr.Logger
	standing map[v1alpha1.Reason]bool
}

// update takes the reasons of a round: how many queries each keeps waiting, zero where no query stands.
func (s *silences) update(counts map[v1alpha1.Reason]int, messages map[v1alpha1.Reason]string, me self) {
	node := nodeReference(s.nodeName, me.nodeObject)
	for reason, count := range counts {
		metrics.AgentWithoutResponse.WithLabelValues(string(reason)).Set(float64(count))
		if !s.standing[reason] {
			s.log.Info("Not responding", "reason", reason, "queries", count, "why", messages[reason])
			s.recorder.Eventf(node, nil, corev1.EventTypeWarning, string(reason), "Respond",
				"the Holdfast agent does not respond to queries about sandboxes: %s", messages[reason])
		}
	}
	for reason := range s.standing {
		if _, still := counts[reason]; !still {
			metrics.AgentWithoutResponse.WithLabelValues(string(reason)).Set(0)
			s.log.Info("Responding again", "reason", reason)
			s.recorder.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonResponding), "Respond",
				"the Holdfast agent responds to queries about sandboxes again; it did not because of %s", reason)
		}
	}
	s.standing = map[v1alpha1.Reason]bool{}
	for reason := range counts {
		s.standing[reason] = true
	}
}
