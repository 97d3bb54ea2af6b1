// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// webhookServed is how the API server serves a resource now; without versions it does not.
type webhookServed struct {
	versions []string
	// status are those of the versions that have the subresource /status.
	status []string
}

// webhookDiscovery asks the API server itself. An error means that it is unknown.
type webhookDiscovery interface {
	served(ctx context.Context, resource schema.GroupResource) (webhookServed, error)
}

// webhookLiveDiscovery does not use the manager's RESTMapper, which never forgets what was served once.
type webhookLiveDiscovery struct {
	client *discovery.DiscoveryClient
}

func newWebhooksDiscovery(c *rest.Config, h *http.Client) (webhookDiscovery, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c, h)
	if err != nil {
		return nil, fmt.Errorf("making a client for discovery: %w", err)
	}
	return webhookLiveDiscovery{client: client}, nil
}

func (d webhookLiveDiscovery) served(ctx context.Context, resource schema.GroupResource) (webhookServed, error) {
	var group metav1.APIGroup
	err := d.client.RESTClient().Get().AbsPath("/apis", resource.Group).Do(ctx).Into(&group)
	if apierrors.IsNotFound(err) {
		return webhookServed{}, nil
	}
	if err != nil {
		return webhookServed{}, fmt.Errorf("asking the API server for the versions of group %s: %w", resource.Group, err)
	}
	var found webhookServed
	for _, version := range group.Versions {
		list, err := d.client.ServerResourcesForGroupVersionWithContext(ctx, version.GroupVersion)
		if apierrors.IsNotFound(err) {
			continue // gone since
		}
		if err != nil {
			return webhookServed{}, fmt.Errorf("asking the API server for the resources of %s: %w", version.GroupVersion, err)
		}
		for i := range list.APIResources {
			switch list.APIResources[i].Name {
			case resource.Resource:
				found.versions = append(found.versions, version.Version)
			case resource.Resource + "/status":
				found.status = append(found.status, version.Version)
			}
		}
	}
	return found, nil
}

// webhookServedMemo asks once for each resource.
type webhookServedMemo struct {
	discovery webhookDiscovery
	answers   map[schema.GroupResource]webhookServedAnswer
}

type webhookServedAnswer struct {
	served webhookServed
	err    error
}

func (m *webhookServedMemo) ask(ctx context.Context, resource schema.GroupResource) (webhookServed, error) {
	answer, known := m.answers[resource]
	if !known {
		answer.served, answer.err = m.discovery.served(ctx, resource)
		if m.answers == nil {
			m.answers = map[schema.GroupResource]webhookServedAnswer{}
		}
		m.answers[resource] = answer
	}
	return answer.served, answer.err
}

// webhookAcceptance says whether a policy can work with what is served. The webhook is configured in any case: it harms
// nothing, and it is there before the first object of the resource. A resource that is not served at all is nothing wrong.
func webhookAcceptance(wanted v1alpha1.GuardedResource, served webhookServed) metav1.Condition {
	resource := schema.GroupResource{Group: wanted.Group, Resource: wanted.Resource}
	if len(served.versions) == 0 {
		return webhookNotServed(metav1.ConditionTrue, fmt.Sprintf("the API server serves no resource %s; the policy waits for it and begins by itself "+
			"when it comes. Nothing to do, unless spec.resource is misspelled", resource))
	}
	judged, missing := webhookVersions(wanted.Versions, served.versions)
	if len(judged) == 0 {
		return webhookNotServed(metav1.ConditionFalse, fmt.Sprintf("the API server serves %s in %s, and not in what spec.resource.versions names: %s; write one of those, or \"*\"",
			resource, strings.Join(served.versions, ", "), strings.Join(missing, ", ")))
	}
	message := fmt.Sprintf("%s is served in %s", resource, strings.Join(served.versions, ", "))
	if len(missing) > 0 {
		message += fmt.Sprintf("; of spec.resource.versions, %s is not served", strings.Join(missing, ", "))
	}
	if asked := wanted.Status == nil || *wanted.Status; asked && !slices.ContainsFunc(judged, func(v string) bool { return slices.Contains(served.status, v) }) {
		message += "; it has no subresource /status, so only writes of the objects themselves are judged"
	}
	return metav1.Condition{Type: v1alpha1.PolicyAccepted, Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonPolicyAccepted), Message: message}
}

func webhookNotServed(status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.PolicyAccepted, Status: status, Reason: string(v1alpha1.ReasonResourceNotServed), Message: message}
}

// webhookVersions are those of the wanted that are served, and those that are not.
func webhookVersions(wanted, served []string) (judged, missing []string) {
	if len(wanted) == 0 || slices.Contains(wanted, "*") {
		return served, nil
	}
	for _, version := range wanted {
		if slices.Contains(served, version) {
			judged = append(judged, version)
		} else {
			missing = append(missing, version)
		}
	}
	return judged, missing
}
