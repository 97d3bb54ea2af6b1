// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const repair = "resources of this group cannot be guarded: the cluster, or Holdfast itself, could not be repaired"

// forbiddenGroups are the API groups of which nothing may be guarded, and why: what the control plane, Holdfast's own
// Deployment and its certificates live on, and nothing that has a node's name or hands out its addresses. It is what the
// rules of the CRD say.
var forbiddenGroups = func() map[string]string {
	groups := map[string]string{"": "the core group cannot be guarded: Nodes, Pods and the rest of it keep the cluster alive"}
	for _, group := range []string{
		"holdfast.dev",
		"admissionregistration.k8s.io",
		"apiextensions.k8s.io",
		"apiregistration.k8s.io",
		"apps",
		"authentication.k8s.io",
		"authorization.k8s.io",
		"cert-manager.io",
		"certificates.k8s.io",
		"discovery.k8s.io", // the endpoints of the webhooks
		"events.k8s.io",
		"flowcontrol.apiserver.k8s.io", // the API server writes it
		"internal.apiserver.k8s.io",    // the API server writes it
		"networking.k8s.io",            // the API server writes the addresses of Services
		"node.k8s.io",
		"policy",
		"rbac.authorization.k8s.io",
		"scheduling.k8s.io", // the API server does not start without its PriorityClasses
	} {
		groups[group] = repair
	}
	return groups
}()

// forbiddenResources are the single resources that may not be guarded, and why.
var forbiddenResources = map[schema.GroupResource]string{
	{Group: "coordination.k8s.io", Resource: "leases"}: "Leases cannot be guarded: " +
		"their owner is set once, and a refused renewal makes the node NotReady",
	{Group: "sriovnetwork.openshift.io", Resource: "sriovnetworknodestates"}: "SriovNetworkNodeStates cannot be guarded: " +
		"their operator owns them, and they outlive a Node on purpose",
	{Group: "nfd.k8s-sigs.io", Resource: "nodefeatures"}: "NodeFeatures cannot be guarded: a Pod owns them",
}

// neverDenied are the resources of which no write may be refused, and why.
var neverDenied = map[schema.GroupResource]string{
	{Group: "storage.k8s.io", Resource: "csinodes"}: "CSINodes are written by the kubelet, which gives up its volumes when refused: " +
		"use Warn or Audit",
}
