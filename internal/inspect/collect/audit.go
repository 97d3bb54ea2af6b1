// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/claim"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Audit reads everything that an audit compares: pools first, then pods, then records, reservations last. What may not be read and is not
// needed for the entries themselves is noted in the facts, like types that are not served; the rest is an error.
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
		if !pod.Spec.HostNetwork { // others have no address of a guarded IPAM
			f.Pods = append(f.Pods, auditPod(pod))
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
	if err := c.managerFacts(ctx, backend, networked, f, &snapshot); err != nil {
		f.Unread = append(f.Unread, "reservations, slices or network definitions, so that these were not compared, and no address that two pods show was looked for: "+err.Error())
	}
	return f, backend, ctx.Err()
}

// auditPod keeps of a pod what an audit compares.
func auditPod(pod *corev1.Pod) audit.Pod {
	shown, err := podnetwork.StatusAddresses(pod.Annotations)
	return audit.Pod{
		Ref: ipam.PodRef{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, Node: pod.Spec.NodeName, Deleting: pod.DeletionTimestamp != nil,
		Ended: facts.IsTerminal(pod), Guarded: controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer), Running: pod.Status.Phase == corev1.PodRunning,
		Shown: shown, Unreadable: err != nil,
	}
}

// stripped keeps of a pod what the manager's audit compares.
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
	if _, forbidden := errors.AsType[*inspect.ForbiddenError](err); forbidden {
		f.Unread = append(f.Unread, "node resource policies, so that nothing is told of node-scoped objects: "+err.Error())
		return nil
	}
	return err
}

// managerFacts reads what the manager's audit compares (controllers/audit), from live reads alone. Reservations come last.
func (c *Cluster) managerFacts(ctx context.Context, backend ipam.Auditable, pods []corev1.Pod, f *audit.Facts, snapshot *ipam.Snapshot) error {
	d := &definitions{Cluster: c}
	networks := claim.Of(backend, d.read)
	nodes := sets.New[string]()
	for i := range f.Nodes {
		nodes.Insert(f.Nodes[i].Name)
	}
	for i := range f.Records {
		nodes.Insert(f.Records[i].Spec.NodeName)
	}
	divided, err := backend.SlicePools(ctx)
	if err != nil {
		return readError(err, "list", "nodeslicepools.whereabouts.cni.cncf.io", everywhere)
	}
	found := networks.Facts(ctx, pods, snapshot, divided, nodes.Has)
	names := managed(ctx, networks, f.Pods)
	if err := networks.Err(); err != nil {
		return err
	}
	f.Managed, f.Unserved.Definitions = names, d.unserved
	found.Reservations, err = networks.Reservations(ctx)
	if meta.IsNoMatchError(err) {
		err = c.unserved(ctx, inspect.ReservationResource, ippools.Version, err)
	}
	if f.Unserved.Reservations = isNotServed(err); f.Unserved.Reservations {
		err = nil
		for i := range found.Pods { // none is missing
			for j := range found.Pods[i].Shown {
				found.Pods[i].Shown[j].Reserved = false
			}
		}
	}
	if err != nil {
		return readError(err, "list", inspect.ReservationResource, everywhere)
	}
	f.Manager = found
	return nil
}

// managed are the networks of all pods whose IPAM Holdfast guards.
func managed(ctx context.Context, networks *claim.Networks, pods []audit.Pod) sets.Set[string] {
	names := sets.New[string]()
	for i := range pods {
		for j := range pods[i].Shown {
			if name := pods[i].Shown[j].Network; networks.Named(ctx, name).Managed {
				names.Insert(name)
			}
		}
	}
	return names
}

// definitions reads NetworkAttachmentDefinitions until a read fails, and none after that.
type definitions struct {
	*Cluster
	// unserved: the type is not served.
	unserved bool
	failed   error
}

// read returns nil for a definition that is not there, or of which the type is not served.
func (d *definitions) read(ctx context.Context, ref ipam.PodRef) (*nadv1.NetworkAttachmentDefinition, error) {
	if d.unserved || d.failed != nil {
		return nil, d.failed
	}
	definition, err := read[nadv1.NetworkAttachmentDefinition](ctx, d.Cluster, client.ObjectKey(ref), inspect.DefinitionResource)
	d.failed = orUnserved(err, &d.unserved)
	return definition, d.failed
}

// claims reads the ResourceClaims by UID where one of the entries belongs to a claim.
func (c *Cluster) claims(ctx context.Context, entries []ipam.Entry) release.Fact[map[types.UID]string] {
	ofClaim := func(e ipam.Entry) bool { return ownership.KindOf(e.SandboxID) == ownership.KindResourceClaim }
	if !slices.ContainsFunc(entries, ofClaim) {
		return release.Absent[map[types.UID]string]()
	}
	names := map[types.UID]string{}
	all := pages.Metadata(ctx, c.Client, resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"))
	err := walk(ctx, c, "resourceclaims.resource.k8s.io", all, func(list *metav1.PartialObjectMetadataList) {
		for i := range list.Items {
			names[list.Items[i].UID] = client.ObjectKeyFromObject(&list.Items[i]).String()
		}
	})
	return release.FactOf(names, err)
}
