// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const repair = "resources of this group cannot be guarded: the cluster, or Holdfast itself, could not be repaired"

// forbiddenGroups are the API groups of which nothing may be guarded, and why. It is what the rules of the CRD say.
var forbiddenGroups = map[string]string{
	"":                             "the core group cannot be guarded: Nodes, Pods and the rest of it keep the cluster alive",
	"holdfast.dev":                 repair,
	"admissionregistration.k8s.io": repair,
	"authentication.k8s.io":        repair,
	"authorization.k8s.io":         repair,
	"apiextensions.k8s.io":         repair,
	"rbac.authorization.k8s.io":    repair,
	"events.k8s.io":                repair,
}

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
