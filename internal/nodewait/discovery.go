// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Discovery is what has to be known of a resource before it can be read. A group or version that is not served is an error
// for which IsNotFound of the API machinery is true.
type Discovery interface {
	// Group is the versions of an API group.
	Group(ctx context.Context, name string) (*metav1.APIGroup, error)
	// Resources is the resources of one version.
	Resources(ctx context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error)
}

// GroupDiscovery asks for one group at a time. The discovery of everything, which a general client loads first, is
// hundreds of times as large, and thousands of nodes may ask at once.
type GroupDiscovery struct {
	// Client is one of any API group; its paths are absolute.
	Client rest.Interface
}

// Group implements Discovery.
func (d GroupDiscovery) Group(ctx context.Context, name string) (*metav1.APIGroup, error) {
	group := &metav1.APIGroup{}
	return group, d.Client.Get().AbsPath("/apis", name).Do(ctx).Into(group)
}

// Resources implements Discovery.
func (d GroupDiscovery) Resources(ctx context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{}
	return list, d.Client.Get().AbsPath("/apis", version.Group, version.Version).Do(ctx).Into(list)
}

// served is a resource as the API server serves it.
type served struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// discover finds the resource in the first of these versions that serves it; "*" stands for all, the one that the API server
// prefers first.
func discover(ctx context.Context, d Discovery, resource schema.GroupResource, versions []string) (served, error) {
	if slices.Contains(versions, "*") {
		group, err := d.Group(ctx, resource.Group)
		if err != nil && !apierrors.IsNotFound(err) {
			return served{}, unreadable("discovering API group "+resource.Group, err)
		}
		versions = nil
		if err == nil {
			versions = inOrder(group)
		}
	}
	for _, version := range versions {
		list, err := d.Resources(ctx, schema.GroupVersion{Group: resource.Group, Version: version})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return served{}, unreadable("discovering "+resource.Group+"/"+version, err)
		}
		for _, r := range list.APIResources {
			if r.Name == resource.Resource {
				return served{resource.WithVersion(version), r.Kind, r.Namespaced}, nil
			}
		}
	}
	return served{}, notServed(resource, versions)
}

func inOrder(group *metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.Version}
	for _, v := range group.Versions {
		if !slices.Contains(versions, v.Version) {
			versions = append(versions, v.Version)
		}
	}
	return versions
}

func notServed(resource schema.GroupResource, versions []string) *obstacle {
	what := fmt.Sprintf("the API server serves no %s", resource)
	if len(versions) > 0 {
		what += fmt.Sprintf(" in version %s", strings.Join(versions, ", "))
	}
	return &obstacle{what, "Install its CustomResourceDefinition, or correct the plural name, the version and the group."}
}
