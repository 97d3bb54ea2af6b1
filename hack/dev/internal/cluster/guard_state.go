// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// Manager is the guard's process; nil while the guard is not installed.
func (c *Cluster) Manager() *process.Process {
	if c.guard == nil {
		return nil
	}
	return c.guard.manager
}

// StartManager starts the manager again, as it was, after the caller ended it.
// It returns when it is ready.
func (c *Cluster) StartManager(ctx context.Context) error {
	if c.guard == nil || c.guard.manager == nil || !c.guard.manager.Exited() {
		return errors.New("starting the manager again: it runs, or was never started")
	}
	return c.step(ctx, "manager", c.runManager)
}

// awaitStamp waits until the API server calls the webhook: it learns of new
// webhooks by a watch. The network does not exist, which stamps.
func (c *Cluster) awaitStamp(ctx context.Context) error {
	return await(ctx, func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceDefault, GenerateName: "holdfast-dev-probe-",
				Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "holdfast-dev-probe"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "none"}}},
		}
		if err := c.client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if !slices.Contains(pod.Finalizers, holdfastv1alpha1.Finalizer) {
			return errors.New("the API server does not stamp pods yet")
		}
		return nil
	})
}

// RemoveGuard takes Holdfast away: the webhooks and policies first, then the
// manager, then our finalizer from every pod, then the records and the rest.
// Addresses that were held stay in their pools.
func (c *Cluster) RemoveGuard(ctx context.Context) error {
	if c.guard == nil {
		return nil
	}
	errs := []error{c.removePolicies(ctx), c.delete(ctx, c.guard.admission)}
	if c.guard.manager != nil {
		errs = append(errs, c.guard.manager.Stop(0))
	}
	errs = append(errs, c.stripFinalizers(ctx),
		c.client.DeleteAllOf(ctx, object(holdfastv1alpha1.GroupVersion.WithKind("IPAllocation"))),
		c.delete(ctx, slices.DeleteFunc(slices.Concat(c.guard.base, c.guard.agents), func(o *unstructured.Unstructured) bool {
			// The one was there before, the other takes long to go.
			return o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "Namespace"
		})))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the guard: %w", err)
	}
	c.guard = nil
	return nil
}

// removePolicies ends the webhook that the manager makes of the policies. The
// policies go first, or the manager would make it again.
func (c *Cluster) removePolicies(ctx context.Context) error {
	if err := c.client.DeleteAllOf(ctx, object(holdfastv1alpha1.GroupVersion.WithKind("NodeResourcePolicy"))); err != nil {
		return err
	}
	configuration := object(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	configuration.SetName(nodeResourceWebhooks)
	return client.IgnoreNotFound(c.client.Delete(ctx, configuration))
}

// delete deletes in the reverse of the order in which the objects were applied.
func (c *Cluster) delete(ctx context.Context, objects []*unstructured.Unstructured) error {
	var errs []error
	for _, o := range slices.Backward(objects) {
		errs = append(errs, client.IgnoreNotFound(c.client.Delete(ctx, o)))
	}
	return errors.Join(errs...)
}

func object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

func (c *Cluster) stripFinalizers(ctx context.Context) error {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods); err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods.Items {
		if !slices.Contains(pod.Finalizers, holdfastv1alpha1.Finalizer) {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q],"labels":{%q:null}}}`,
			pod.UID, holdfastv1alpha1.Finalizer, holdfastv1alpha1.GuardedLabel)
		err := c.client.Patch(ctx, &pod, client.RawPatch("application/strategic-merge-patch+json", patch))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // gone, or another pod of the name
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
