// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "holdfast.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the types of this package.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &IPAllocation{}, &IPAllocationList{}, &NodeResourcePolicy{}, &NodeResourcePolicyList{},
		&GuardedNode{}, &GuardedNodeList{}, &AllNodesQuery{}, &AllNodesQueryList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
