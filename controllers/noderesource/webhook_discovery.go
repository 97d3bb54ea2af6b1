// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// webhookServed is how the API server serves a resource now; without versions it does not.
type webhookServed struct {
	versions []string
	// status are those of the versions that have the subresource /status.
	status []string
}

// webhookServedNow asks the API server itself: the manager's RESTMapper never forgets what was served once. An error means that it is unknown.
func webhookServedNow(ctx context.Context, api served.API, resource schema.GroupResource) (webhookServed, error) {
	var found webhookServed
	for r, err := range served.In(ctx, api, resource, []string{served.AnyVersion}) {
		if err != nil {
			return webhookServed{}, fmt.Errorf("asking the API server how it serves %s: %w", resource, err)
		}
		found.versions = append(found.versions, r.Version)
		if r.Status {
			found.status = append(found.status, r.Version)
		}
	}
	return found, nil
}

// webhookServedMemo asks once for each resource.
type webhookServedMemo map[schema.GroupResource]func() (webhookServed, error)

func (m webhookServedMemo) ask(ctx context.Context, api served.API, resource schema.GroupResource) (webhookServed, error) {
	if m[resource] == nil {
		m[resource] = sync.OnceValues(func() (webhookServed, error) { return webhookServedNow(ctx, api, resource) })
	}
	return m[resource]()
}

// webhookAcceptance says whether a policy can work with what is served. The webhook is configured in any case: it harms
// nothing, and it is there before the first object of the resource. A resource that is not served at all is nothing wrong.
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
	if asked := wanted.Status == nil || *wanted.Status; asked && !slices.ContainsFunc(judged, func(v string) bool { return slices.Contains(now.status, v) }) {
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
