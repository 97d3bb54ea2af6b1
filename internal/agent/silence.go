// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// silences says, once when it begins and once when it ends, why marks get no answer: an event on the Node, a line in the log, a
// gauge. The records' condition is the writer's.
type silences struct {
	recorder events.EventRecorder
	nodeName string
	log      logr.Logger
	standing map[v1alpha1.Reason]bool
}

// update takes the silences of a round: how many marks each keeps waiting, zero if there is a reason for silence and nobody asks.
func (s *silences) update(counts map[v1alpha1.Reason]int, messages map[v1alpha1.Reason]string, me self) {
	node := nodeReference(s.nodeName, me.nodeObject)
	for reason, count := range counts {
		metrics.AgentSilences.WithLabelValues(string(reason)).Set(float64(count))
		if !s.standing[reason] {
			s.log.Info("No answer", "reason", reason, "marks", count, "why", messages[reason])
			s.recorder.Eventf(node, nil, corev1.EventTypeWarning, string(reason), "Answer",
				"the Holdfast agent gives no answer about sandboxes: %s", messages[reason])
		}
	}
	for reason := range s.standing {
		if _, still := counts[reason]; !still {
			metrics.AgentSilences.WithLabelValues(string(reason)).Set(0)
			s.log.Info("Answering again", "reason", reason)
			s.recorder.Eventf(node, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonAnswered), "Answer",
				"the Holdfast agent answers about sandboxes again; it did not because of %s", reason)
		}
	}
	s.standing = map[v1alpha1.Reason]bool{}
	for reason := range counts {
		s.standing[reason] = true
	}
}
