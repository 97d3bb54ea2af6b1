// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// What the controllers ask of agents. The kinds of questions are the label "about".
const (
	// AskedSandbox is a question about one sandbox, AskedFenced the same of a node that was declared dead, AskedAny one about every
	// sandbox of a pod, and AskedAll one to every node.
	AskedSandbox = "sandbox"
	AskedFenced  = "fenced"
	AskedAny     = "any"
	AskedAll     = "all"
)

// The release handshake as the leader sees it.
var (
	// Marks counts questions that were written into a record.
	Marks = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "marks_total",
		Help: "Questions to agents that were written into a record, by what they are about (sandbox, fenced, any, all).",
	}, []string{"about"}))

	// Answers counts answers that count, once for each question and verdict.
	Answers = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "answers_total",
		Help: "Answers of agents that counted, by verdict and reason, once for each question.",
	}, []string{"verdict", "reason"}))

	// HandshakeDuration is the time from a question to its ReadyForRelease.
	HandshakeDuration = register(prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    Prefix + "handshake_duration_seconds",
		Help:    "Time from a question about a sandbox to the ReadyForRelease that counts; questions of before a restart are not measured.",
		Buckets: []float64{.3, 1, 3, 10, 30, 60, 120, 300, 600, 900, 1800, 3600},
	}))

	// HandshakesInFlight is the number of questions without an answer that are young enough to get one.
	HandshakesInFlight = register(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "handshakes_in_flight",
		Help: "Questions about the sandboxes of pods that were asked within handshakes.answerWithin and have no answer yet. Only the leader reports it.",
	}))

	// Rewrites counts entries that were given to the sandbox that came in the place of theirs.
	Rewrites = register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: Prefix + "rewrites_total",
		Help: "IPAM entries of pods that live which were given to the sandbox that came in the place of theirs, by backend.",
	}, []string{"backend"}))
)
