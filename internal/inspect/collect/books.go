// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/claim"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
)

// books reads what the manager's own audit compares (controllers/audit), from live reads alone.
func (c *Cluster) books(ctx context.Context, backend ipam.Auditable, pods []corev1.Pod, f *audit.Facts, snapshot *ipam.Snapshot) (ipamaudit.Facts, error) {
	d := &definitions{Cluster: c}
	networks := claim.Of(backend, d.read)
	nodes := sets.New[string]()
	for i := range f.Nodes {
		nodes.Insert(f.Nodes[i].Name)
	}
	for i := range f.Records {
		nodes.Insert(f.Records[i].Spec.NodeName)
	}
	books, err := networks.Facts(ctx, pods, snapshot, nodes.Has)
	if err != nil {
		return ipamaudit.Facts{}, readError(err, "list", "nodeslicepools.whereabouts.cni.cncf.io", everywhere)
	}
	f.Managed = managed(ctx, networks, f.Pods)
	if err := networks.Err(); err != nil {
		f.Managed = nil
		return ipamaudit.Facts{}, err
	}
	f.Unserved.Definitions = d.unserved
	return books, c.reservations(ctx, networks, &books, f)
}

// reservations come last. Where there is no such type, nobody lacks one.
func (c *Cluster) reservations(ctx context.Context, networks *claim.Networks, books *ipamaudit.Facts, f *audit.Facts) (err error) {
	books.Reservations, err = networks.Reservations(ctx)
	if meta.IsNoMatchError(err) {
		err = c.unserved(ctx, inspect.ReservationResource, ippools.Version, err)
	}
	if f.Unserved.Reservations = isNotServed(err); f.Unserved.Reservations {
		for i := range books.Pods {
			for j := range books.Pods[i].Shown {
				books.Pods[i].Shown[j].Reserved = false
			}
		}
		return nil
	}
	if err != nil {
		return readError(err, "list", inspect.ReservationResource, everywhere)
	}
	return nil
}

// managed are the networks of all pods that have an IPAM of ours.
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

// definitions reads those of networks until a read fails, and none after that.
type definitions struct {
	*Cluster
	// unserved: they are of a type that is not served.
	unserved bool
	failed   error
}

// read gives nothing for a definition that is not there, or is of a type that is not served.
func (d *definitions) read(ctx context.Context, ref ipam.PodRef) (definition *nadv1.NetworkAttachmentDefinition, err error) {
	if d.unserved || d.failed != nil {
		return nil, d.failed
	}
	definition, err = d.definition(ctx, ref)
	if d.unserved = isNotServed(err); d.unserved {
		return nil, nil
	}
	d.failed = err
	return definition, err
}
