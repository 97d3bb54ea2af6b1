// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/pages"
)

// isMissing reports that an object or its resource does not exist.
func isMissing(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// list reads the metadata of all objects of a kind; of a namespaced kind those in one namespace or, with "", in all. A kind that is not served has
// none.
func (u *uninstallation) list(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	for page, err := range pages.Metadata(ctx, u.Client, gvk, client.InNamespace(namespace)) {
		if isMissing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing every %s: %w", gvk.Kind, err)
		}
		all = append(all, page.Items...)
	}
	for i := range all {
		all[i].SetGroupVersionKind(gvk)
	}
	return all, nil
}

// find lists the objects of some kinds that are part of the installation.
func (u *uninstallation) find(ctx context.Context, kinds []schema.GroupVersionKind, namespace string) ([]metav1.PartialObjectMetadata, error) {
	var ours []metav1.PartialObjectMetadata
	for _, gvk := range kinds {
		all, err := u.list(ctx, gvk, namespace)
		if err != nil {
			return nil, err
		}
		ours = append(ours, slices.DeleteFunc(all, func(o metav1.PartialObjectMetadata) bool { return !isOurs(gvk, &o) })...)
	}
	return ours, nil
}

// findCallers lists the webhook configurations, of any name, that call our Service and no other.
func (u *uninstallation) findCallers(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var callers []metav1.PartialObjectMetadata
	for _, gvk := range []schema.GroupVersionKind{mutatingWebhooks, validatingWebhooks} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := u.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing every %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			// The field that names the Service is the same in both kinds.
			var c admissionregistrationv1.ValidatingWebhookConfiguration
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &c); err != nil {
				return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, list.Items[i].GetName(), err)
			}
			if len(c.Webhooks) > 0 && !slices.ContainsFunc(c.Webhooks, u.callsOthers) {
				caller := metav1.PartialObjectMetadata{ObjectMeta: c.ObjectMeta}
				caller.SetGroupVersionKind(gvk)
				callers = append(callers, caller)
			}
		}
	}
	return callers, nil
}

func (u *uninstallation) callsOthers(w admissionregistrationv1.ValidatingWebhook) bool {
	s := w.ClientConfig.Service
	return s == nil || s.Namespace != u.Namespace || s.Name != "holdfast-webhook"
}

// remove deletes objects, each by its UID. One that cannot be deleted stops no other.
func (u *uninstallation) remove(ctx context.Context, objects []metav1.PartialObjectMetadata) error {
	var errs []error
	for i := range objects {
		object := &objects[i]
		if u.DryRun {
			u.print("%s would be deleted", nameOf(object))
			continue
		}
		if object.DeletionTimestamp != nil {
			u.print("%s is being deleted", nameOf(object))
			continue
		}
		// Not the metadata itself: that goes through the typed client, which fails where the response is an object of a kind not in its scheme.
		target := &unstructured.Unstructured{}
		target.SetGroupVersionKind(object.GroupVersionKind())
		target.SetNamespace(object.Namespace)
		target.SetName(object.Name)
		err := u.deletePast(ctx, target, client.Preconditions{UID: &object.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		switch {
		case err == nil:
			u.print("%s deleted", nameOf(object))
		case !isMissing(err) && !apierrors.IsConflict(err):
			errs = append(errs, fmt.Errorf("deleting %s: %w", nameOf(object), err))
		}
	}
	return errors.Join(errs...)
}

// deletePast deletes an object, and tries again while a policy of ours refuses it: API servers apply a deleted policy for some seconds more.
func (u *uninstallation) deletePast(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	for began := time.Now(); ; {
		err := u.Client.Delete(ctx, object, options...)
		refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+prefix)
		if !refused || time.Since(began) > goneTimeout || !rest(ctx, lookInterval) {
			return err
		}
	}
}

func nameOf(object *metav1.PartialObjectMetadata) string {
	if object.Namespace == "" {
		return object.Kind + " " + object.Name
	}
	return object.Kind + " " + object.Namespace + "/" + object.Name
}
