// SPDX-License-Identifier: Apache-2.0

package nodecrds

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The resources that Paths defines.
var (
	NodeNetworkConfigs     = schema.GroupVersionResource{Group: "acn.azure.com", Version: "v1alpha", Resource: "nodenetworkconfigs"}
	NodeInfos              = schema.GroupVersionResource{Group: "multitenancy.acn.azure.com", Version: "v1alpha1", Resource: "nodeinfo"}
	CiliumNodes            = schema.GroupVersionResource{Group: "cilium.io", Version: "v2", Resource: "ciliumnodes"}
	CNINodes               = schema.GroupVersionResource{Group: "vpcresources.k8s.aws", Version: "v1alpha1", Resource: "cninodes"}
	NodeResourceTopologies = schema.GroupVersionResource{Group: "topology.node.k8s.io", Version: "v1alpha2", Resource: "noderesourcetopologies"}
	BlockAffinities        = schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: "blockaffinities"}
	IPAMBlocks             = schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: "ipamblocks"}
	HostSubnets            = schema.GroupVersionResource{Group: "network.openshift.io", Version: "v1", Resource: "hostsubnets"}
)

// HostSubnetUIDAnnotation is where a HostSubnet carries the UID of its Node.
const HostSubnetUIDAnnotation = "pod.network.openshift.io/node-uid"

// NodeNetworkConfig is what DNC makes for Azure CNS, in overlay: one network container with a prefix. It has the status
// in it; the API server drops that at a creation. The finalizer that keeps it after its Node is left to the caller:
// "finalizers.acn.azure.com/dnc-operations".
func NodeNetworkConfig(node string, uid types.UID) *unstructured.Unstructured {
	o := object(NodeNetworkConfigs, "NodeNetworkConfig", node, map[string]any{
		"spec": map[string]any{"requestedIPCount": int64(0), "ipsNotInUse": []any{}},
		"status": map[string]any{
			"assignedIPCount": int64(256),
			"status":          "Updated",
			"networkContainers": []any{map[string]any{
				"id": "6ee5a7f1-8a2c-4d7b-9b61-2f0d1a3c4e5f", "type": "overlay", "assignmentMode": "static", "version": int64(0),
				"nodeIP": "10.224.0.4", "primaryIP": "10.244.2.0/24", "subnetAddressSpace": "10.244.0.0/16",
			}},
		},
	})
	o.SetNamespace(metav1.NamespaceSystem)
	own(o, node, uid)
	return o
}

// NodeInfo is what Azure CNS makes for its own node.
func NodeInfo(node string, uid types.UID) *unstructured.Unstructured {
	o := object(NodeInfos, "NodeInfo", node, map[string]any{
		"spec": map[string]any{"vmUniqueID": "b3a1f7c2-5d0e-4b5f-8a57-0c4f9d2e6a11"},
	})
	own(o, node, uid)
	return o
}

// CiliumNode is what a Cilium agent makes for its own node, with two addresses that the operator put into its pool and
// one of them on its way back. It has the status in it; the API server drops that at a creation.
func CiliumNode(node string, uid types.UID) *unstructured.Unstructured {
	eni := map[string]any{"resource": "eni-0a"}
	o := object(CiliumNodes, "CiliumNode", node, map[string]any{
		"spec": map[string]any{"ipam": map[string]any{"pool": map[string]any{"10.0.1.41": eni, "10.0.1.42": eni}}},
		"status": map[string]any{"ipam": map[string]any{
			"used":        map[string]any{"10.0.1.41": map[string]any{"owner": "default/web-0", "resource": "eni-0a"}},
			"release-ips": map[string]any{"10.0.1.42": "marked-for-release"},
		}},
	})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: uid}})
	return o
}

// CNINode is what the AWS VPC resource controller makes.
func CNINode(node string, uid types.UID) *unstructured.Unstructured {
	o := object(CNINodes, "CNINode", node, map[string]any{
		"spec": map[string]any{"features": []any{map[string]any{"name": "SecurityGroupsForPods"}}},
	})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: uid, Controller: new(true)}})
	return o
}

// NodeResourceTopology is what a topology exporter makes for its own node.
func NodeResourceTopology(node string, uid types.UID) *unstructured.Unstructured {
	o := object(NodeResourceTopologies, "NodeResourceTopology", node, map[string]any{
		"topologyPolicies": []any{"SingleNUMANodeContainerLevel"},
		"zones": []any{map[string]any{"name": "node-0", "type": "Node", "resources": []any{map[string]any{
			"name": "cpu", "capacity": "20", "allocatable": "18", "available": "4",
		}}}},
	})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: uid}})
	return o
}

// BlockAffinity is Calico's claim of a block for a node; it carries no UID.
func BlockAffinity(node string) *unstructured.Unstructured {
	return object(BlockAffinities, "BlockAffinity", node+"-10-244-7-64-26", map[string]any{
		"spec": map[string]any{"cidr": "10.244.7.64/26", "deleted": "false", "node": node, "state": "confirmed"},
	})
}

// IPAMBlock is a block of Calico with an affinity to a node; it carries no UID.
func IPAMBlock(node string) *unstructured.Unstructured {
	return object(IPAMBlocks, "IPAMBlock", "10-244-7-64-26", map[string]any{
		"spec": map[string]any{
			"affinity": "host:" + node, "allocations": []any{int64(0), nil}, "attributes": []any{map[string]any{"handle_id": "ipip"}},
			"cidr": "10.244.7.64/26", "deleted": false, "sequenceNumber": int64(0), "strictAffinity": false, "unallocated": []any{int64(1)},
		},
	})
}

// HostSubnet is what the OpenShift SDN controller makes: the UID is in an annotation.
func HostSubnet(node string, uid types.UID) *unstructured.Unstructured {
	o := object(HostSubnets, "HostSubnet", node, map[string]any{"host": node, "hostIP": "10.0.0.7", "subnet": "10.128.2.0/23"})
	o.SetAnnotations(map[string]string{HostSubnetUIDAnnotation: string(uid)})
	return o
}

// object is a cluster-scoped object of a resource with this content.
func object(resource schema.GroupVersionResource, kind, name string, content map[string]any) *unstructured.Unstructured {
	o := (&unstructured.Unstructured{Object: content}).DeepCopy()
	o.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	o.SetName(name)
	return o
}

// own sets the reference that a controller sets to the Node that it made the object for.
func own(o *unstructured.Unstructured, node string, uid types.UID) {
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: node, UID: uid, Controller: new(true), BlockOwnerDeletion: new(true),
	}})
}
