// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// webhookServed is how the API server serves a resource; without versions it does not.
type webhookServed struct {
	versions []string
	// status are those of the versions that have the subresource /status.
	status []string
}

// webhookServedMemo discovers each resource once.
type webhookServedMemo map[schema.GroupResource]webhookServed

// get asks the API server: the manager's RESTMapper never forgets a version. An error means that it is unknown.
func (m webhookServedMemo) get(ctx context.Context, api served.API, resource schema.GroupResource) (webhookServed, error) {
	if known, ok := m[resource]; ok {
		return known, nil
	}
	var found webhookServed
	for r, err := range served.In(ctx, api, resource, []string{served.AnyVersion}) {
		if err != nil {
			return webhookServed{}, fmt.Errorf("discovering how the API server serves %s: %w", resource, err)
		}
		found.versions = append(found.versions, r.Version)
		if r.Status {
			found.status = append(found.status, r.Version)
		}
	}
	m[resource] = found
	return found, nil
}

// webhookAcceptance reports whether a policy can work with the served versions. A resource that is not served yet is accepted: its webhook is
// there before the first object.
func webhookAcceptance(wanted v1alpha1.GuardedResource, now webhookServed) metav1.Condition {
	resource := schema.GroupResource{Group: wanted.Group, Resource: wanted.Resource}
	if len(now.versions) == 0 {
		return webhookNotServed(metav1.ConditionTrue, fmt.Sprintf("the API server serves no resource %s; the policy waits for it and begins by itself "+
			"when it comes. Nothing to do, unless spec.resource is misspelled", resource))
	}
	judged, missing := webhookVersions(wanted.Versions, now.versions)
	if len(judged) == 0 {
		return webhookNotServed(metav1.ConditionFalse, fmt.Sprintf("the API server serves %s in %s, and not in what spec.resource.versions names: %s; write one of those, or \"*\"",
			resource, strings.Join(now.versions, ", "), strings.Join(missing, ", ")))
	}
	message := fmt.Sprintf("%s is served in %s", resource, strings.Join(now.versions, ", "))
	if len(missing) > 0 {
		message += fmt.Sprintf("; of spec.resource.versions, %s is not served", strings.Join(missing, ", "))
	}
	if judgesStatus := wanted.Status == nil || *wanted.Status; judgesStatus && !slices.ContainsFunc(judged, func(v string) bool { return slices.Contains(now.status, v) }) {
		message += "; it has no subresource /status, so only writes of the objects themselves are judged"
	}
	return metav1.Condition{Type: v1alpha1.PolicyAccepted, Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonPolicyAccepted), Message: message}
}

func webhookNotServed(status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.PolicyAccepted, Status: status, Reason: string(v1alpha1.ReasonResourceNotServed), Message: message}
}

// webhookVersions are those of the wanted that are served, and those that are not.
func webhookVersions(wanted, now []string) (judged, missing []string) {
	if len(wanted) == 0 || slices.Contains(wanted, served.AnyVersion) {
		return now, nil
	}
	for _, version := range wanted {
		if slices.Contains(now, version) {
			judged = append(judged, version)
		} else {
			missing = append(missing, version)
		}
	}
	return judged, missing
}
