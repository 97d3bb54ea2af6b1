// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	oldestHold = gaugesAtScrape("oldest_hold_seconds",
		"For how long the pod that has been held the longest is held, of those that wait for this reason now; counted from the end of its grace period, earlier reasons included. "+
			"Read from the pods: every replica reports it, and a restart does not begin anew. Pods with a deleted object are not in it.", "reason")

	// OldestHold is the age of the oldest hold, by the reason of the wait.
	OldestHold = register(&AtScrape[map[string]time.Duration]{
		gauges: []*prometheus.GaugeVec{oldestHold},
		fill: func(oldest map[string]time.Duration) {
			for reason, age := range oldest {
				oldestHold.WithLabelValues(reason).Set(age.Seconds())
			}
		},
	})
)
