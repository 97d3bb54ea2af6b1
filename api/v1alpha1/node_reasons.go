// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// What an object of a node-scoped resource is, compared with the live Node of its node's name.
const (
	// ReasonNodeUIDMatches: every UID that the object carries is the live Node's.
	ReasonNodeUIDMatches Reason = "NodeUIDMatches"
	// ReasonStaleNodeUID: the object carries the UID of a deleted Node, while another Node has the name.
	ReasonStaleNodeUID Reason = "StaleNodeUID"
	// ReasonNodeUIDMissing: the policy requires a UID, and the object carries none.
	ReasonNodeUIDMissing Reason = "NodeUIDMissing"
	// ReasonNodeNameMismatch: a Node reference of the object has another name than the object's node.
	ReasonNodeNameMismatch Reason = "NodeNameMismatch"
	// ReasonNodeMissing: there is no Node of that name.
	ReasonNodeMissing Reason = "NodeMissing"
	// ReasonNamesNoNode: the object speaks for no node; the policy does not apply.
	ReasonNamesNoNode Reason = "NamesNoNode"
	// ReasonBeingDeleted: the object is being deleted; the controller that cleans up after it must be able to.
	ReasonBeingDeleted Reason = "BeingDeleted"
	// ReasonOnlyRemovals: the write only drops owner references or finalizers, or unblocks their deletion.
	ReasonOnlyRemovals Reason = "OnlyRemovals"
	// ReasonExemptUser: the policy exempts the writer.
	ReasonExemptUser Reason = "ExemptUser"
	// ReasonNodeUnreadable: it is unknown for which node the object speaks, because the field or expression of the policy
	// cannot be read from it.
	ReasonNodeUnreadable Reason = "NodeUnreadable"
	// ReasonPolicyGone: the policy was deleted; its webhook is deleted too.
	ReasonPolicyGone Reason = "PolicyGone"
)

// The reasons of a policy's conditions.
const (
	// ReasonPolicyAccepted: the policy can work.
	ReasonPolicyAccepted Reason = "PolicyAccepted"
	// ReasonPolicyInvalid: a field of the policy cannot be used.
	ReasonPolicyInvalid Reason = "PolicyInvalid"
	// ReasonResourceForbidden: the resource may never be guarded.
	ReasonResourceForbidden Reason = "ResourceForbidden"
	// ReasonResourceNotServed: the API server does not serve the resource. With status True the policy waits for it; with False the
	// resource is served, in none of the versions that the policy names.
	ReasonResourceNotServed Reason = "ResourceNotServed"
	// ReasonExpressionInvalid: a CEL expression does not compile, or does not give what it has to.
	ReasonExpressionInvalid Reason = "ExpressionInvalid"
	// ReasonWebhookRejected: the API server refused the policy's webhook.
	ReasonWebhookRejected Reason = "WebhookRejected"
	// ReasonWebhookConfigured: the API server has the policy's webhook.
	ReasonWebhookConfigured Reason = "WebhookConfigured"
	// ReasonAwaitingCABundle: the webhook has no CA bundle yet; until then it fails open.
	ReasonAwaitingCABundle Reason = "AwaitingCABundle"
	// ReasonWebhookContested: another client keeps changing the policy's webhook; it is put back once in 10 seconds.
	ReasonWebhookContested Reason = "WebhookContested"
	// ReasonGuardDisabled: the manager's configuration turns the guard of node-scoped resources off.
	ReasonGuardDisabled Reason = "GuardDisabled"
	// ReasonPolicyNotAccepted: the policy was not accepted, so it is not enforced or swept.
	ReasonPolicyNotAccepted Reason = "PolicyNotAccepted"
	// ReasonSweepCompleted: every object was read.
	ReasonSweepCompleted Reason = "SweepCompleted"
	// ReasonSweepForbidden: the manager may not list, get or delete the resource; the message names the ClusterRole to add.
	ReasonSweepForbidden Reason = "SweepForbidden"
	// ReasonSweepFailed: the objects could not be read; it is tried again.
	ReasonSweepFailed Reason = "SweepFailed"
)

// The reasons of events of the sweep and of the webhook controller.
const (
	// ReasonStaleNodeObject: an object speaks for a node whose Node is deleted.
	ReasonStaleNodeObject Reason = "StaleNodeObject"
	// ReasonStaleNodeObjectDeleted: such an object was deleted, as the policy configures.
	ReasonStaleNodeObjectDeleted Reason = "StaleNodeObjectDeleted"
	// ReasonStaleNodeObjectHeld: such an object is being deleted, and finalizers keep it.
	ReasonStaleNodeObjectHeld Reason = "StaleNodeObjectHeld"
	// ReasonNodeAddressConflict: one address or prefix is held under two live Nodes.
	ReasonNodeAddressConflict Reason = "NodeAddressConflict"
	// ReasonWebhookRestored: another client changed the generated webhook configuration; it was put back.
	ReasonWebhookRestored Reason = "WebhookRestored"
)
