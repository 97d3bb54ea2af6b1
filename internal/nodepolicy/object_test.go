// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// object reads a manifest.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatalf("reading %s: %v", manifest, err)
	}
	return u
}

const (
	nodeNetworkConfig = `
apiVersion: acn.azure.com/v1alpha
kind: NodeNetworkConfig
metadata:
  name: aks-nodepool1-0
  namespace: kube-system
  uid: nnc-uid
  resourceVersion: "7"
  finalizers: [finalizers.acn.azure.com/dnc-operations]
  ownerReferences: [{apiVersion: v1, kind: Node, name: aks-nodepool1-0, uid: node-uid, controller: true, blockOwnerDeletion: true}]
spec: {requestedIPCount: 0, ipsNotInUse: []}
status:
  assignedIPCount: 256
  networkContainers:
  - {id: nc-1, type: overlay, nodeIP: 10.224.0.4, primaryIP: 10.244.2.0/24, subnetAddressSpace: 10.244.0.0/16, version: 0}
  - {id: nc-2, type: vnet, primaryIP: 10.225.0.9, ipAssignments: [{name: a, ip: 10.225.0.10}, {name: b, ip: 10.225.0.11}]}
`
	ciliumNode = `
apiVersion: cilium.io/v2
kind: CiliumNode
metadata: {name: node-1, ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: node-uid}]}
spec: {ipam: {podCIDRs: [10.1.0.0/24, "fd00:1::/64"], pool: {10.0.1.41: {resource: eni-0a}, 10.0.1.42: {resource: eni-0a}}}}
status: {ipam: {used: {10.0.1.41: {owner: default/web-0, resource: eni-0a}}}}
`
	cniNode = `
apiVersion: vpcresources.k8s.aws/v1alpha1
kind: CNINode
metadata:
  name: node-1
  deletionTimestamp: "2026-01-02T03:04:05Z"
  finalizers: [networking.k8s.aws/resource-cleanup]
  ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: node-uid, controller: true}]
spec: {features: [{name: SecurityGroupsForPods}]}
`
	hostSubnet = `
apiVersion: network.openshift.io/v1
kind: HostSubnet
metadata: {name: node-1, annotations: {pod.network.openshift.io/node-uid: node-uid, other: x}}
host: node-1
subnet: 10.128.0.0/23
`
	blockAffinity = `
apiVersion: crd.projectcalico.org/v1
kind: BlockAffinity
metadata: {name: node-1-10-0-0-0-26}
spec: {node: node-1, cidr: 10.0.0.0/26, state: confirmed}
`
	ipamBlock = `
apiVersion: crd.projectcalico.org/v1
kind: IPAMBlock
metadata: {name: 10-0-0-0-26}
spec: {affinity: "host:node-1", cidr: 10.0.0.0/26}
`
	resourceSlice = `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: pool-a, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: driver, uid: ds-uid}]}
spec: {driver: a.example, allNodes: true}
`
	calicoNode = `has(self.spec.affinity) && self.spec.affinity.startsWith('host:') ? self.spec.affinity.substring(5) : ''`
	nodeUIDKey = "pod.network.openshift.io/node-uid"
)

func TestObject(t *testing.T) {
	reference := func(name, uid string) []nodeidentity.Reference {
		return []nodeidentity.Reference{{Name: name, UID: types.UID(uid)}}
	}
	for name, tc := range map[string]struct {
		edits    []edit
		manifest string
		want     nodeidentity.Object
	}{
		"NodeNetworkConfig": {of(guards("acn.azure.com", "nodenetworkconfigs")), nodeNetworkConfig, nodeidentity.Object{
			Resource: "nodenetworkconfigs.acn.azure.com", Kind: "NodeNetworkConfig", Namespace: "kube-system", Name: "aks-nodepool1-0",
			UID: "nnc-uid", ResourceVersion: "7", NodeName: "aks-nodepool1-0", References: reference("aks-nodepool1-0", "node-uid"),
			Finalizers: []string{"finalizers.acn.azure.com/dnc-operations"},
		}},
		"CiliumNode": {nil, ciliumNode, nodeidentity.Object{
			Resource: "ciliumnodes.cilium.io", Kind: "CiliumNode", Name: "node-1", NodeName: "node-1", References: reference("node-1", "node-uid"),
		}},
		"CNINode, being deleted": {of(guards("vpcresources.k8s.aws", "cninodes")), cniNode, nodeidentity.Object{
			Resource: "cninodes.vpcresources.k8s.aws", Kind: "CNINode", Name: "node-1", NodeName: "node-1",
			References: reference("node-1", "node-uid"), Finalizers: []string{"networking.k8s.aws/resource-cleanup"}, Deleting: true,
		}},
		"HostSubnet, UID in an annotation": {
			all(guards("network.openshift.io", "hostsubnets"), uidIn(nodeUIDKey), nodeNameAt("host")), hostSubnet, nodeidentity.Object{
				Resource: "hostsubnets.network.openshift.io", Kind: "HostSubnet", Name: "node-1", NodeName: "node-1",
				References: reference("node-1", "node-uid"),
			}},
		"BlockAffinity, a field": {all(guards("crd.projectcalico.org", "blockaffinities"), nodeNameAt("spec.node")), blockAffinity, nodeidentity.Object{
			Resource: "blockaffinities.crd.projectcalico.org", Kind: "BlockAffinity", Name: "node-1-10-0-0-0-26", NodeName: "node-1",
		}},
		"IPAMBlock, an expression": {all(guards("crd.projectcalico.org", "ipamblocks"), nodeNameIs(calicoNode)), ipamBlock, nodeidentity.Object{
			Resource: "ipamblocks.crd.projectcalico.org", Kind: "IPAMBlock", Name: "10-0-0-0-26", NodeName: "node-1",
		}},
		"ResourceSlice of no node": {all(guards("resource.k8s.io", "resourceslices"), nodeNameAt("spec.nodeName")), resourceSlice, nodeidentity.Object{
			Resource: "resourceslices.resource.k8s.io", Kind: "ResourceSlice", Name: "pool-a", OtherOwners: 1,
		}},
		"a null on the way is a missing name": {of(nodeNameAt("spec.at.node")), "kind: K\nmetadata: {name: a}\nspec: {at: null}", nodeidentity.Object{
			Resource: "ciliumnodes.cilium.io", Kind: "K", Name: "a",
		}},
		"only Nodes of v1 count": {nil, `
metadata:
  name: a
  ownerReferences:
  - {apiVersion: v1, kind: Pod, name: a, uid: u1}
  - {apiVersion: v1, kind: Node, name: b, uid: u2}
  - {apiVersion: other.example/v1, kind: Node, name: a, uid: u3}
  - {apiVersion: v1, kind: Node, name: a, uid: u4}
  - {apiVersion: v1beta1, kind: Node, name: a, uid: u5}
`, nodeidentity.Object{
			Resource: "ciliumnodes.cilium.io", Name: "a", NodeName: "a", OtherOwners: 3,
			References: []nodeidentity.Reference{{Name: "b", UID: "u2"}, {Name: "a", UID: "u4"}},
		}},
		"a reference without a UID carries none of a Node": {nil, "metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Node, name: a}]}", nodeidentity.Object{
			Resource: "ciliumnodes.cilium.io", Name: "a", NodeName: "a", References: reference("a", ""),
		}},
		"with an annotation every owner is another": {of(uidIn(nodeUIDKey)), `
metadata:
  name: a
  annotations: {pod.network.openshift.io/node-uid: ""}
  ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: u1}, {apiVersion: v1, kind: Pod, name: a, uid: u2}]
`, nodeidentity.Object{
			Resource: "ciliumnodes.cilium.io", Name: "a", NodeName: "a", OtherOwners: 2, References: []nodeidentity.Reference{{Name: "a"}},
		}},
		"without its annotation an object carries no UID": {of(uidIn(nodeUIDKey)), `
metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: u1}]}
`, nodeidentity.Object{Resource: "ciliumnodes.cilium.io", Name: "a", NodeName: "a", OtherOwners: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := compile(t, tc.edits...).Object(object(t, tc.manifest))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObjectSaysWhatItCannotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		edits    []edit
		manifest string
		parts    []string
	}{
		"a name that is a number":        {of(nodeNameAt("spec.node")), "spec: {node: 5}", []string{"spec.node is a number", "expected a string"}},
		"no object on the way":           {of(nodeNameAt("spec.node")), "spec: a string", []string{"spec is a string", "expected an object"}},
		"an expression that fails":       {of(nodeNameIs("self.spec.affinity.substring(5)")), "spec: {}", []string{"affinity", "has()"}},
		"an expression out of range":     {of(nodeNameIs("self.spec.affinity.substring(5)")), "spec: {affinity: abc}", []string{"range"}},
		"an expression without a text":   {of(nodeNameIs("self.spec.node")), "spec: {node: [a]}", []string{"list", "string"}},
		"an expression that is null":     {of(nodeNameIs("self.spec.node")), "spec: {node: null}", []string{"null", "string"}},
		"an expression that never ends":  {of(nodeNameIs("self.l.map(a, self.l.map(b, self.l.map(c, self.l.map(d, a + b + c + d))))[0][0][0][0]")), long, []string{"cost"}},
		"metadata that is a list":        {nil, "metadata: []", []string{"metadata", "cannot restore struct from: slice"}},
		"owners that are no list":        {nil, "metadata: {ownerReferences: {}}", []string{"metadata", "cannot restore slice from map"}},
		"an owner that is a string":      {nil, "metadata: {ownerReferences: [a]}", []string{"metadata", "cannot restore struct from: string"}},
		"finalizers that are no list":    {nil, "metadata: {finalizers: a}", []string{"metadata", "cannot restore slice from string"}},
		"a finalizer that is a number":   {nil, "metadata: {finalizers: [1]}", []string{"metadata.finalizers", "unrecognized type: string"}},
		"annotations that are a string":  {of(uidIn(nodeUIDKey)), "metadata: {annotations: a}", []string{"metadata", "cannot restore map from string"}},
		"an annotation that is a number": {of(uidIn(nodeUIDKey)), "metadata: {annotations: {" + nodeUIDKey + ": 1}}", []string{nodeUIDKey, "string"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, tc.edits...).Object(object(t, tc.manifest))
			wantError(t, err, tc.parts)
		})
	}
}

// long is an object with a list of which four nested loops are too much.
var long = "l: [" + strings.Repeat("a,", 100) + "a]"

func wantError(t *testing.T, err error, parts []string) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %q: %v", part, err)
		}
	}
}
