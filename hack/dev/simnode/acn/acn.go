// SPDX-License-Identifier: Apache-2.0

// Package acn reads and makes the NodeNetworkConfigs (acn.azure.com/v1alpha) with
// which Azure's network controller, DNC, assigns each node's CNS the addresses it
// may hand out. The object has the name of its Node.
package acn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Namespace is that of every NodeNetworkConfig.
	Namespace = "kube-system"
	// Finalizer keeps a NodeNetworkConfig until DNC has cleaned up after its node.
	Finalizer = "finalizers.acn.azure.com/dnc-operations"
	// Resource is the plural name.
	Resource = "nodenetworkconfigs"
)

// Kind is that of a NodeNetworkConfig.
var Kind = schema.GroupVersionKind{Group: "acn.azure.com", Version: "v1alpha", Kind: "NodeNetworkConfig"}

// Object is an empty NodeNetworkConfig.
func Object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(Kind)
	return o
}

// New is the NodeNetworkConfig that DNC makes for a Node.
func New(node *corev1.Node) *unstructured.Unstructured {
	o := Object()
	o.SetNamespace(Namespace)
	o.SetName(node.Name)
	o.SetFinalizers([]string{Finalizer})
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true), BlockOwnerDeletion: new(true),
	}})
	o.Object["spec"] = map[string]any{"requestedIPCount": int64(0), "ipsNotInUse": []any{}}
	return o
}

// Get reads the NodeNetworkConfig of a node; nil when there is none.
func Get(ctx context.Context, reader client.Reader, node string) (*unstructured.Unstructured, error) {
	o := Object()
	err := reader.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: node}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading NodeNetworkConfig %s/%s: %w", Namespace, node, err)
	}
	return o, nil
}

// NodeUID is the UID of the Node that owns the object; empty if none does.
func NodeUID(o *unstructured.Unstructured) types.UID {
	for _, owner := range o.GetOwnerReferences() {
		if owner.APIVersion == "v1" && owner.Kind == "Node" {
			return owner.UID
		}
	}
	return ""
}

// Container is the network container of an overlay node.
type Container struct {
	ID string
	// Prefix is the node's part of the overlay.
	Prefix netip.Prefix
	// Subnet is the whole overlay.
	Subnet netip.Prefix
	// NodeIP is left as it was where it is empty.
	NodeIP  string
	Version int64
}

// SetContainer writes the status for one network container, and reports whether that
// changed anything.
func SetContainer(o *unstructured.Unstructured, c Container) (changed bool, err error) {
	old, _, err := unstructured.NestedSlice(o.Object, "status", "networkContainers")
	if err != nil {
		return false, err
	}
	wanted := map[string]any{
		"id": c.ID, "type": "overlay", "assignmentMode": "static", "primaryIP": c.Prefix.String(),
		"subnetAddressSpace": c.Subnet.String(), "nodeIP": c.NodeIP, "version": c.Version,
	}
	if len(old) == 1 {
		before, _ := old[0].(map[string]any)
		if c.NodeIP == "" {
			wanted["nodeIP"] = before["nodeIP"]
		}
		if equality.Semantic.DeepEqual(before, wanted) {
			return false, nil
		}
	}
	o.Object["status"] = map[string]any{
		"assignedIPCount":   int64(1) << (c.Prefix.Addr().BitLen() - c.Prefix.Bits()),
		"networkContainers": []any{wanted},
	}
	return true, nil
}

// Prefixes are those of the object's network containers.
func Prefixes(o *unstructured.Unstructured) ([]netip.Prefix, error) {
	containers, _, err := unstructured.NestedSlice(o.Object, "status", "networkContainers")
	if err != nil {
		return nil, fmt.Errorf("NodeNetworkConfig %s: %w", o.GetName(), err)
	}
	var prefixes []netip.Prefix
	var errs []error
	for _, container := range containers {
		fields, _ := container.(map[string]any)
		text, _ := fields["primaryIP"].(string)
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("NodeNetworkConfig %s: primaryIP: %w", o.GetName(), err))
			continue
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, errors.Join(errs...)
}

// Version is that of the object's first network container; 0 where there is none.
func Version(o *unstructured.Unstructured) int64 {
	containers, _, err := unstructured.NestedSlice(o.Object, "status", "networkContainers")
	if err != nil || len(containers) == 0 {
		return 0
	}
	fields, _ := containers[0].(map[string]any)
	version, _ := fields["version"].(int64)
	return version
}
