// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// AtScrape is a group of gauges whose values are made when they are scraped: what would have to be counted all the time otherwise, or
// would grow old. Without a source it has no series.
type AtScrape[V any] struct {
	mu     sync.Mutex
	gauges []*prometheus.GaugeVec
	fill   func(V)
	source func() V
}

// From sets the source of the values; the last one counts. It is called for each scrape, by one goroutine at a time, and must not call the API server.
func (s *AtScrape[V]) From(source func() V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = source
}

// Describe describes every gauge.
func (s *AtScrape[V]) Describe(descs chan<- *prometheus.Desc) {
	for _, gauge := range s.gauges {
		gauge.Describe(descs)
	}
}

// Collect replaces all series by those of now.
func (s *AtScrape[V]) Collect(metrics chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source == nil {
		return
	}
	values := s.source()
	for _, gauge := range s.gauges {
		gauge.Reset()
	}
	s.fill(values)
	for _, gauge := range s.gauges {
		gauge.Collect(metrics)
	}
}
