// SPDX-License-Identifier: Apache-2.0

package agent

// The permissions of the agents' ServiceAccount. An agent cannot read pods or IPAllocations, and writes only the status of its GuardedNode and
// events.

// +kubebuilder:rbac:groups=holdfast.dev,resources=allnodesqueries,verbs=list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=guardednodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=guardednodes/status,verbs=update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=selfsubjectreviews,verbs=create
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
