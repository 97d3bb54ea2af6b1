// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// Finalizer holds a pod object until every address of that pod UID has been given back to its pool.
	Finalizer = "holdfast.dev/ip-allocation"

	// GuardedLabel is on every pod that carries the finalizer, so that caches and webhooks select on the server.
	// A pod that loses the label while the finalizer stands is relabelled, never treated as deleted.
	GuardedLabel = "holdfast.dev/guarded"
	// GuardedLabelValue is the only value of GuardedLabel.
	GuardedLabelValue = "true"

	// GuardAnnotation on a pod, set to GuardAnnotationOff at creation, opts the pod out of protection.
	GuardAnnotation = "holdfast.dev/guard"
	// GuardAnnotationOff is the value of GuardAnnotation that opts out. It is the value of OptOutLabel too.
	GuardAnnotationOff = "off"
	// OptOutLabel on a namespace, set to GuardAnnotationOff, keeps all its new pods away from the webhook.
	OptOutLabel = "holdfast.dev/guard"

	// IPsReleasedCondition is the pod condition that explains why a terminating pod is still held. It is written only
	// when a pod waits longer than the ordinary path takes.
	IPsReleasedCondition = "holdfast.dev/IPsReleased"

	// TombstonePrefix is the namespace part of the podref that Holdfast writes into an IPAM entry while it releases
	// it: "holdfast-releasing/<record name>". No pod can match it, so no pod inherits the entry in between.
	TombstonePrefix = "holdfast-releasing"

	// OrphanPrefix starts the name of a record of addresses of an unknown owner: "orphan-<sandbox ID>".
	OrphanPrefix = "orphan-"
)
