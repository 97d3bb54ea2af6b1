// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are what was read of an installation.
type Facts struct {
	// Namespace is the manager's, Plugin the version of this command, and APIServer that of Kubernetes.
	Namespace, Plugin string
	APIServer         release.Fact[string]
	// Configuration is the manager's; ConfigurationSource says where it was read, Assumed that it is only the defaults.
	Configuration       release.Fact[*configv1alpha1.ManagerConfiguration]
	ConfigurationSource string
	Assumed             bool
	// Manager is its Deployment, Absent where there is none, and Pods its pods.
	Manager release.Fact[*appsv1.Deployment]
	Pods    []corev1.Pod
	// Agents is the DaemonSet of the nodes' agents, and AgentPods its pods.
	Agents    release.Fact[*appsv1.DaemonSet]
	AgentPods []corev1.Pod
	// Nodes are all Nodes.
	Nodes release.Fact[[]corev1.Node]
	// Webhooks are all admission webhooks of the API server, ours and others'.
	Webhooks release.Fact[[]Webhook]
	// Certificate is the Secret with the serving certificate.
	Certificate release.Fact[*corev1.Secret]
	// Issuing is what cert-manager says about it; Absent where the API server serves no Certificates.
	Issuing release.Fact[Issuing]
	// Protection is whether the API server protects a pod that names a network, as a dry run shows.
	Protection release.Fact[Protection]
	// Updates are dry runs of what takes a finalizer off, on guarded pods.
	Updates []Update
	// Unprotected are the pods ("namespace/name") with the label that show an address, are not being deleted and have no finalizer.
	Unprotected []string
	// UpdatesUnread says why no such run was made; empty if it was, or if there is no guarded pod.
	UpdatesUnread string
	// Rights are those that the accounts need.
	Rights       []Right
	RightsUnread string
	// Records are all IPAllocations.
	Records release.Fact[[]v1alpha1.IPAllocation]
	// GuardedNodes are all of them.
	GuardedNodes release.Fact[[]v1alpha1.GuardedNode]
	// Events are those of ours.
	Events release.Fact[[]inspect.Event]
	// DaemonSets are those whose pods may run CNI DEL (unsafeReleases.daemonSets): whether each exists.
	DaemonSets map[string]release.Fact[struct{}]
	// AdmissionPolicies are all ValidatingAdmissionPolicies and their bindings, ours and others'.
	AdmissionPolicies release.Fact[AdmissionPolicies]
	// Policies are the NodeResourcePolicies.
	Policies release.Fact[[]v1alpha1.NodeResourcePolicy]
	// Unserved are types of ours that the API server does not serve.
	Unserved inspect.Unserved
	// PoolsServed and SlicePoolsServed say whether the API server serves IPPools, and NodeSlicePools.
	PoolsServed, SlicePoolsServed release.Fact[bool]
	// MutatingPoliciesServed says whether it serves MutatingAdmissionPolicy v1.
	MutatingPoliciesServed release.Fact[bool]
}

// AdmissionPolicies are what the API server evaluates itself.
type AdmissionPolicies struct {
	Policies []admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Webhook is one entry of a webhook configuration.
type Webhook struct {
	// Configuration and Name are those of the object and of the entry.
	Configuration, Name string
	Mutating            bool
	// Service is "namespace/name", or empty for a URL.
	Service, URL string
	CABundle     []byte
	// FailsClosed: failurePolicy Fail.
	FailsClosed bool
	// UpdatesPods and CreatesPods: it is called for updates (of pods or pods/status), or creations, of pods.
	UpdatesPods, CreatesPods bool
	// Everywhere: no namespaceSelector, objectSelector or condition keeps anything away.
	Everywhere bool
	// Ready is how many addresses stand behind its Service; Absent for a URL.
	Ready release.Fact[int]
	// Ours says that it is part of Holdfast.
	Ours bool
}

// Protection is what a dry run of a pod's creation showed.
type Protection struct{ Finalizer, Label bool }

// Update is a dry run of a patch of a guarded pod, through pods and through pods/status.
type Update struct {
	Pod                    string
	Refused, StatusRefused string
}

// Right is one that an account needs.
type Right struct {
	Account, Verb, Resource, Namespace string
	Allowed                            bool
}
