// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// Audit reads everything that an audit compares: pools first, then pods, then records, reservations last. What is not needed for
// the entries themselves and may not be read is told in the facts, and so is what there is none of, because its type is not served; the
// rest is an error.
func (c *Cluster) Audit(ctx context.Context, now time.Time) (*audit.Facts, ipam.Auditable, error) {
	f := &audit.Facts{Time: now}
	var system corev1.Namespace
	if _, err := c.get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system, "namespaces"); err != nil {
		return nil, nil, err
	}
	f.Cluster = system.UID
	backend, pools, err := c.Pools(ctx)
	if err != nil {
		return nil, nil, err
	}
	snapshot := backend.All()
	f.Entries, f.Problems, f.Unserved.Pools = snapshot.Entries, snapshot.Problems, !pools
	f.Claims = c.claims(ctx, f.Entries)
	var networked []corev1.Pod
	err = c.Pods(ctx, func(pod *corev1.Pod) {
		if kept, concerned := auditPod(pod); concerned {
			f.Pods = append(f.Pods, kept)
			networked = append(networked, stripped(pod))
		}
	})
	if err != nil {
		return nil, nil, err
	}
	f.Records, err = c.Records(ctx)
	if err := orUnserved(err, &f.Unserved.Records); err != nil {
		return nil, nil, err
	}
	if f.GuardedNodes, err = c.GuardedNodes(ctx); err != nil {
		return nil, nil, err
	}
	if f.Nodes, err = c.Nodes(ctx); err != nil {
		f.NodesUnread = err.Error()
		f.Unread = append(f.Unread, "nodes, so that no machine was compared: "+err.Error())
	}
	if err := c.policies(ctx, f); err != nil {
		return nil, nil, err
	}
	if f.Books, err = c.books(ctx, backend, networked, f, &snapshot); err != nil {
		f.Unread = append(f.Unread, "reservations, slices or network definitions, so that these were not compared, and no address that two pods show was looked for: "+err.Error())
	}
	return f, backend, ctx.Err()
}

// auditPod keeps of a pod what an audit compares; concerned is false for one that can have no address of a guarded IPAM.
func auditPod(pod *corev1.Pod) (kept audit.Pod, concerned bool) {
	shown, err := podnetwork.StatusAddresses(pod.Annotations)
	guarded := controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)
	kept = audit.Pod{
		Ref: ipam.PodRef{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, Node: pod.Spec.NodeName, Deleting: pod.DeletionTimestamp != nil,
		Ended:   facts.IsTerminal(pod),
		Guarded: guarded, Running: pod.Status.Phase == corev1.PodRunning, Shown: shown, Unreadable: err != nil,
	}
	return kept, !pod.Spec.HostNetwork
}

// stripped is what the comparison of reservations and slices reads of a pod.
func stripped(pod *corev1.Pod) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, DeletionTimestamp: pod.DeletionTimestamp,
			Annotations: pod.Annotations, ManagedFields: pod.ManagedFields, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Message: pod.Status.Message},
	}
}

func (c *Cluster) policies(ctx context.Context, f *audit.Facts) (err error) {
	f.Policies, err = c.nodePolicies(ctx)
	err = orUnserved(err, &f.Unserved.Policies)
	var forbidden *inspect.ForbiddenError
	if errors.As(err, &forbidden) {
		f.Unread = append(f.Unread, "node resource policies, so that nothing is told of node-scoped objects: "+err.Error())
		return nil
	}
	return err
}

// definition reads a NetworkAttachmentDefinition; nil where there is none.
func (c *Cluster) definition(ctx context.Context, ref ipam.PodRef) (*nadv1.NetworkAttachmentDefinition, error) {
	var definition nadv1.NetworkAttachmentDefinition
	found, err := c.get(ctx, client.ObjectKey(ref), &definition, inspect.DefinitionResource)
	if err != nil || !found {
		return nil, err
	}
	return &definition, nil
}
