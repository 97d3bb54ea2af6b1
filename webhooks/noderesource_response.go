// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// The keys of audit annotations; the API server puts the name of the webhook, which has the policy's, before them.
const (
	auditReason  = "reason"
	auditMessage = "message"
)

// decision is the outcome of a ruling, as a value of the metric's label.
func (r *ruling) decision() string {
	switch {
	case r.Outcome == nodeidentity.Allow:
		return metrics.NodeResourceAllowed
	case r.Outcome != nodeidentity.Refuse:
		return metrics.NodeResourceUndecided
	case r.action == v1alpha1.PolicyWarn:
		return metrics.NodeResourceWarned
	case r.action == v1alpha1.PolicyAudit:
		return metrics.NodeResourceAudited
	default:
		return metrics.NodeResourceRefused
	}
}

// respond turns a ruling into a response by the policy's action. Warn and Audit never stop a write, not even one that could not be
// judged.
func (r *ruling) respond(ctx context.Context, req *admission.Request) admission.Response {
	if r.Outcome == nodeidentity.Allow {
		return admission.Allowed("")
	}
	message := r.message()
	logf.FromContext(ctx).Info("A policy objects to a write of a node-scoped object", "policy", r.policy, "action", r.action,
		"decision", r.decision(), "operation", req.Operation, "subresource", req.SubResource, "reason", r.Reason, "message", r.Message)
	var response admission.Response
	switch {
	case r.action == v1alpha1.PolicyWarn:
		response = admission.Allowed("").WithWarnings(message)
	case r.action == v1alpha1.PolicyAudit:
		response = admission.Allowed("")
	case r.Outcome != nodeidentity.Refuse:
		return CouldNotTell(errors.New(message))
	case r.Reason == v1alpha1.ReasonNodeUnreadable:
		response = admission.Errored(http.StatusUnprocessableEntity, errors.New(message))
		response.Result.Reason = metav1.StatusReasonInvalid
	default:
		response = admission.Denied(message)
	}
	response.AuditAnnotations = map[string]string{auditReason: string(r.Reason), auditMessage: message}
	return response
}

// message is the message for the client that writes: the policy, the reason, what was found, and what to do.
func (r *ruling) message() string {
	message := string(r.Reason) + ": " + r.Message
	if r.policy != "" {
		message = "NodeResourcePolicy " + r.policy + ": " + message
	}
	if r.Outcome != nodeidentity.Refuse && (r.action == v1alpha1.PolicyWarn || r.action == v1alpha1.PolicyAudit) {
		message += " The write was allowed: the action of the policy is " + string(r.action) + "."
	}
	return message
}
