// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// What the controller of the NodeResourcePolicies' webhooks sees and does.
var (
	// NodeResourcePolicies is the number of policies by whether they are accepted ("true", "false").
	NodeResourcePolicies = register(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: Prefix + "node_resource_policies",
		Help: "NodeResourcePolicies by whether they can work (accepted: true, false); their condition Accepted says why not. Only the leader reports it.",
	}, []string{"accepted"}))

	// NodeResourceWebhookRestored counts how often the generated webhook configuration was put back.
	NodeResourceWebhookRestored = register(prometheus.NewCounter(prometheus.CounterOpts{
		Name: Prefix + "node_resource_webhook_restored_total",
		Help: "Times that the generated ValidatingWebhookConfiguration was put back after another client had edited or deleted it.",
	}))
)
