// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// State is what is known of a thing. The zero value is invalid on purpose: it counts as Unknown.
type State int

// The states.
const (
	// Known: it was read, and exists.
	Known State = iota + 1
	// Absent: a successful read shows that it does not exist.
	Absent
	// Unknown: it could not be read, or was not.
	Unknown
)

// Definition is the NetworkAttachmentDefinition of a network, as read.
type Definition struct {
	State State
	// Live is true when it was read past every cache.
	Live bool
	// Config is spec.config, where Known.
	Config string
	// Err explains why it is Unknown; it may be nil.
	Err error
}

// Network is one network that a pod requests, with its definition. A Definition that was not filled in is Unknown.
type Network struct {
	podnetwork.Attachment
	Definition Definition
}

// Facts are what the decision about one pod rests on.
type Facts struct {
	// HostNetwork is spec.hostNetwork.
	HostNetwork bool
	// MirrorPod is true for the API object of a static pod.
	MirrorPod bool
	// ExcludedNamespace is true in a namespace whose pods are never protected.
	ExcludedNamespace bool
	// OptedOut is true by the pod's annotation. The opt-out of its namespace is NamespaceOptedOut.
	OptedOut bool
	// NamespaceOptedOut is true when the label of the namespace is known to be set. The webhook need not look: its
	// namespaceSelector keeps such pods away.
	NamespaceOptedOut bool
	// ClusterNetworkGuarded is true where the configuration guards the cluster's own network.
	ClusterNetworkGuarded bool
	// Malformed are the annotations, or elements of them, that cannot be read.
	Malformed []error
	// Networks are those that the pod requests.
	Networks []Network
}

// Rules are what an administrator configured.
type Rules struct {
	// ExcludedNamespaces are never protected.
	ExcludedNamespaces []string
	// GuardClusterNetwork protects every pod that is not exempt.
	GuardClusterNetwork bool
	// MultusNamespace completes the default-network annotation; empty: podnetwork.DefaultMultusNamespace.
	MultusNamespace string
}

// FactsOf collects what is in a pod. Its Networks still lack their definitions. The namespace of meta must be
// set, as it is in admission.
func FactsOf(meta *metav1.ObjectMeta, hostNetwork bool, rules Rules) Facts {
	_, mirror := meta.Annotations[corev1.MirrorPodAnnotationKey]
	facts := Facts{
		HostNetwork:           hostNetwork,
		MirrorPod:             mirror,
		ExcludedNamespace:     slices.Contains(rules.ExcludedNamespaces, meta.Namespace),
		OptedOut:              meta.Annotations[v1alpha1.GuardAnnotation] == v1alpha1.GuardAnnotationOff,
		ClusterNetworkGuarded: rules.GuardClusterNetwork,
	}
	attachments, malformed := podnetwork.Attachments(meta.Annotations, meta.Namespace, rules.MultusNamespace)
	facts.Malformed = malformed
	for _, attachment := range attachments {
		facts.Networks = append(facts.Networks, Network{Attachment: attachment})
	}
	return facts
}
