// SPDX-License-Identifier: Apache-2.0

// Package served reads from the API server in which versions it serves a resource. It reads one group at a time: the discovery of
// everything, which a general client loads first, is hundreds of times as large, and thousands of nodes may read at once.
package served

import (
	"context"
	"iter"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// AnyVersion in a list of versions stands for all, the one that the API server prefers first.
const AnyVersion = "*"

// API is the discovery of an API server. A group or version that is not served is an error for which IsNotFound of the API
// machinery is true.
type API interface {
	// Group is the versions of an API group.
	Group(ctx context.Context, name string) (*metav1.APIGroup, error)
	// Resources is the resources of one version.
	Resources(ctx context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error)
}

// Client reads from the API server itself, past every cache.
type Client struct {
	// Client is one of any API group; its paths are absolute.
	Client rest.Interface
}

// Group implements API.
func (d Client) Group(ctx context.Context, name string) (*metav1.APIGroup, error) {
	group := &metav1.APIGroup{}
	return group, d.Client.Get().AbsPath("/apis", name).Do(ctx).Into(group)
}

// Resources implements API.
func (d Client) Resources(ctx context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{}
	return list, d.Client.Get().AbsPath("/apis", version.Group, version.Version).Do(ctx).Into(list)
}

// Resource is a resource as one version serves it.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// Status reports whether it has the subresource /status.
	Status bool
}

// In gives the resource in those of the versions that serve it, in their order. An error is the last that it gives.
func In(ctx context.Context, api API, resource schema.GroupResource, versions []string) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		if slices.Contains(versions, AnyVersion) {
			group, err := api.Group(ctx, resource.Group)
			if apierrors.IsNotFound(err) {
				return
			}
			if err != nil {
				yield(Resource{}, err)
				return
			}
			versions = inOrder(group)
		}
		for _, version := range versions {
			list, err := api.Resources(ctx, schema.GroupVersion{Group: resource.Group, Version: version})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				yield(Resource{}, err)
				return
			}
			if found := find(list, resource.WithVersion(version)); found.Kind != "" && !yield(found, nil) {
				return
			}
		}
	}
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

// find reads a list of resources; without a kind the resource is not in it.
func find(list *metav1.APIResourceList, resource schema.GroupVersionResource) Resource {
	found := Resource{GroupVersionResource: resource}
	for i := range list.APIResources {
		switch r := &list.APIResources[i]; r.Name {
		case resource.Resource:
			found.Kind, found.Namespaced = r.Kind, r.Namespaced
		case resource.Resource + "/status":
			found.Status = true
		}
	}
	return found
}
