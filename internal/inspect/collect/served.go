// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// isNotServed: there is certainly no object of a type.
func isNotServed(err error) bool {
	_, is := errors.AsType[*inspect.NotServedError](err)
	return is
}

// orUnserved notes that there is certainly no object of a type, and returns every other error.
func orUnserved(err error, unserved *bool) error {
	if *unserved = isNotServed(err); *unserved {
		return nil
	}
	return err
}

// unserved checks a "no match" of a client. Its mapper also returns that for a group that the API server could not describe at that moment,
// and where other versions are served: neither shows that there are no objects.
func (c *Cluster) unserved(ctx context.Context, resource, version string, noMatch error) error {
	served, err := c.served(ctx, schema.ParseGroupResource(resource).WithVersion(version))
	switch {
	case err != nil:
		return fmt.Errorf("could not find out whether the API server serves %s: %w", resource, err)
	case served:
		return fmt.Errorf("the API server serves %s, and did not say so a moment ago: run it again: %w", resource, noMatch)
	}
	return &inspect.NotServedError{Resource: resource}
}

// versionOf is the version in which objects of this type are read.
func (c *Cluster) versionOf(object runtime.Object) string {
	gvk, err := c.Client.GroupVersionKindFor(object)
	if err != nil {
		return "" // served as nothing: an error then, wherever anything is
	}
	return gvk.Version
}

// served asks the API server, past every cache, whether it serves a resource. False is certain: neither the list of groups, nor the lists of
// resources, nor the CustomResourceDefinitions have it. If it is served in other versions only, that is an error: there may be objects.
func (c *Cluster) served(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	var groups metav1.APIGroupList
	if err := c.discovery.RESTClient().Get().AbsPath("/apis").SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Into(&groups); err != nil {
		return false, err
	}
	if len(groups.Groups) == 0 {
		return false, errors.New("its list of API groups is empty")
	}
	var versions []string
	for _, group := range groups.Groups {
		for _, v := range group.Versions {
			if group.Name != resource.Group {
				continue
			}
			list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, v.GroupVersion)
			if err != nil {
				return false, err
			}
			if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
				versions = append(versions, v.Version)
			}
		}
	}
	switch {
	case slices.Contains(versions, resource.Version):
		return true, nil
	case len(versions) > 0:
		return false, fmt.Errorf("it serves %s in version %s, and this command reads %s: there may be objects that it cannot read; use the kubectl holdfast of the release that is installed",
			resource.GroupResource(), strings.Join(versions, ", "), resource.Version)
	}
	return false, c.undefined(ctx, resource.GroupResource())
}

// undefined is nil where there is no CustomResourceDefinition either, or it may not be read. One that is there and not served, because it is
// new, its names are taken or it serves no version, may have objects.
func (c *Cluster) undefined(ctx context.Context, resource schema.GroupResource) error {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := c.Client.Get(ctx, client.ObjectKey{Name: resource.String()}, definition)
	switch {
	case served.IsAbsent(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the CustomResourceDefinition %s: %w", resource, err)
	}
	return fmt.Errorf("there is a CustomResourceDefinition %s, and it is not served: see its conditions and versions (kubectl describe crd %[1]s)", resource)
}
