// SPDX-License-Identifier: Apache-2.0

package metrics

// What the controller of the NodeResourcePolicies' webhooks sees and does.
var (
	// NodeResourcePolicies is the number of policies by whether they are accepted ("true", "false").
	NodeResourcePolicies = gauges("node_resource_policies",
		"NodeResourcePolicies by whether they can work (accepted: true, false); their condition Accepted says why not. Only the leader reports it.", "accepted")

	// NodeResourceWebhookRestored counts how often the generated webhook configuration was put back.
	NodeResourceWebhookRestored = counter("node_resource_webhook_restored_total",
		"Times that the generated ValidatingWebhookConfiguration was put back after another client had edited or deleted it.")
)
