// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

const (
	partOfLabel = "app.kubernetes.io/part-of"
	partOf      = "holdfast"

	// domain ends the names of objects that are named by our domain: those are ours with any labels.
	domain = ".holdfast.dev"
	prefix = "holdfast-"

	managerName = "holdfast-manager"
	// agentName is the node agents' account and namespace.
	agentName = "holdfast-agent"
	// aggregateLabel is on the ClusterRoles with what the manager may read for a NodeResourcePolicy.
	aggregateLabel = "rbac.holdfast.dev/aggregate-to-node-resources"

	admissionGroup   = "admissionregistration.k8s.io"
	rbacGroup        = "rbac.authorization.k8s.io"
	certManagerGroup = "cert-manager.io"
)

var (
	mutatingWebhooks   = kind(admissionGroup, "v1", "MutatingWebhookConfiguration")
	validatingWebhooks = kind(admissionGroup, "v1", "ValidatingWebhookConfiguration")
	definitions        = kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
	namespaces         = kind("", "v1", "Namespace")
)

// protectors are what puts the finalizer on pods, and every other webhook. Bindings are deleted before policies.
var protectors = []schema.GroupVersionKind{
	kind(admissionGroup, "v1", "MutatingAdmissionPolicyBinding"),
	kind(admissionGroup, "v1", "MutatingAdmissionPolicy"),
	mutatingWebhooks,
	validatingWebhooks,
}

// policies judge writes without a call.
var policies = []schema.GroupVersionKind{
	kind(admissionGroup, "v1", "ValidatingAdmissionPolicyBinding"),
	kind(admissionGroup, "v1", "ValidatingAdmissionPolicy"),
}

var (
	bindings = []schema.GroupVersionKind{kind(rbacGroup, "v1", "ClusterRoleBinding"), kind(rbacGroup, "v1", "RoleBinding")}
	roles    = []schema.GroupVersionKind{kind(rbacGroup, "v1", "ClusterRole"), kind(rbacGroup, "v1", "Role")}
)

// flows configure how the API server queues the manager's calls.
var flows = []schema.GroupVersionKind{
	kind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"),
	kind("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration"),
}

// contents are what the namespace has. Certificates are deleted before their Secrets, which would be created again.
var contents = []schema.GroupVersionKind{
	kind("monitoring.coreos.com", "v1", "ServiceMonitor"),
	kind("monitoring.coreos.com", "v1", "PodMonitor"),
	kind("monitoring.coreos.com", "v1", "PrometheusRule"),
	kind(certManagerGroup, "v1", "Certificate"),
	kind(certManagerGroup, "v1", "Issuer"),
	kind("apps", "v1", "Deployment"),
	kind("apps", "v1", "DaemonSet"),
	kind("policy", "v1", "PodDisruptionBudget"),
	kind("networking.k8s.io", "v1", "NetworkPolicy"),
	kind("", "v1", "ResourceQuota"),
	kind("", "v1", "Service"),
	kind("coordination.k8s.io", "v1", "Lease"),
	kind("", "v1", "ConfigMap"),
	kind("", "v1", "Secret"),
	kind("", "v1", "ServiceAccount"),
}

const finalizerPolicy = "holdfast-finalizer"

// obstacles are the names of the policies, and of their bindings, that would refuse the sweep and the deletion of Leases.
var obstacles = []string{finalizerPolicy, "holdfast-leases"}

// policyNames are the names of all admission policies, and of their bindings (config/policies, config/components).
var policyNames = append(slices.Clone(reportpolicy.Installed), "holdfast-foreign-removals")

// known are the names of an installation's objects, with any labels: components are applied beside config/default, cert-manager creates Secrets,
// and the manager a Lease.
var known = map[string][]string{
	"MutatingWebhookConfiguration":     {"holdfast-protect", "holdfast-slices"},
	"ValidatingWebhookConfiguration":   {"holdfast-release", "holdfast-node-resources"},
	"ValidatingAdmissionPolicy":        policyNames,
	"ValidatingAdmissionPolicyBinding": policyNames,
	"Namespace":                        {agentName},
	"ClusterRole": {managerName, agentName, "holdfast-node-resources", "holdfast-metrics-reader", "holdfast-viewer",
		waitRole},
	"ClusterRoleBinding": {managerName, agentName, "holdfast-node-resources", waitRole},
	"Role":               {managerName, agentName},
	"RoleBinding":        {managerName, agentName},
	"ServiceAccount":     {managerName},
	"Secret":             {"holdfast-ca", "holdfast-webhook-cert"},
	"Lease":              {managerName, v1alpha1.NodeObservationLease},
	"ServiceMonitor":     {managerName},
	"FlowSchema":         {managerName},

	"PriorityLevelConfiguration": {managerName},
	"NetworkPolicy":              {managerName},
}

func kind(group, version, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: name}
}

// isOurs reports whether an object is part of an installation: it has a known name, a name in our domain, or our prefix together with our label. Prefix
// or label alone may be another application's.
func isOurs(gvk schema.GroupVersionKind, object *metav1.PartialObjectMetadata) bool {
	name := object.Name
	switch {
	case gvk == definitions:
		return strings.HasSuffix(name, domain)
	case gvk == namespaces && name != agentName:
		return object.Labels[partOfLabel] == partOf && name != metav1.NamespaceDefault && !strings.HasPrefix(name, "kube-")
	case gvk.Group == admissionGroup && strings.HasSuffix(name, domain), slices.Contains(known[gvk.Kind], name):
		return true
	case gvk.Kind == "ClusterRole" && object.Labels[aggregateLabel] == "true":
		return strings.HasPrefix(name, prefix)
	}
	return object.Labels[partOfLabel] == partOf && strings.HasPrefix(name, prefix)
}
