// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	// agentName is the name of the agents' DaemonSet, account and namespace (config/agent).
	agentName = "holdfast-agent"
	// certificateSecret is where cert-manager puts the serving certificate (config/certmanager).
	certificateSecret = "holdfast-webhook-cert"
)

// Doctor reads what every check needs. What cannot be read is an unknown fact of its check. Dry runs are made in a namespace where pods
// are protected.
func (c *Cluster) Doctor(ctx context.Context, plugin, namespace string) (*doctor.Facts, error) {
	f := &doctor.Facts{Namespace: c.Namespace, Plugin: plugin}
	f.APIServer = release.FactOf(c.serverVersion())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !f.APIServer.IsKnown() {
		return nil, fmt.Errorf("the API server does not respond, so that nothing can be checked: %s", f.APIServer.Why())
	}
	c.installation(ctx, f)
	f.Older = release.FactOf(c.olderDefinitions(ctx))
	f.Webhooks = release.FactOf(c.webhooks(ctx))
	f.AdmissionPolicies = release.FactOf(c.admissionPolicies(ctx))
	f.MutatingPoliciesServed = release.FactOf(c.servesMutatingPolicies(ctx))
	f.Protection = release.FactOf(c.tryProtection(ctx, namespace))
	if err := c.tryUpdates(ctx, f); err != nil {
		f.UpdatesUnread = err.Error()
	}
	if err := c.rights(ctx, f); err != nil {
		f.RightsUnread = err.Error()
	}
	f.Nodes = release.FactOf(c.Nodes(ctx))
	records, err := c.Records(ctx)
	f.Records = release.FactOf(records, orUnserved(err, &f.Unserved.Records))
	f.GuardedNodes = release.FactOf(c.GuardedNodes(ctx))
	f.Events = release.FactOf(c.OurEvents(ctx))
	policies, err := c.nodePolicies(ctx)
	f.Policies = release.FactOf(policies, orUnserved(err, &f.Unserved.Policies))
	c.ipam(ctx, f)
	return f, ctx.Err()
}

func (c *Cluster) serverVersion() (string, error) {
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return "", err
	}
	return version.GitVersion, nil
}

// servesMutatingPolicies reports whether version v1 is served; earlier versions do not count.
func (c *Cluster) servesMutatingPolicies(ctx context.Context) (bool, error) {
	list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "mutatingadmissionpolicies" }), nil
}

// installation reads the manager's and the agents' own objects.
func (c *Cluster) installation(ctx context.Context, f *doctor.Facts) {
	configuration, err := c.Configuration(ctx)
	if err != nil {
		f.Configuration = release.Unknown[*configv1alpha1.ManagerConfiguration](err.Error())
	} else {
		f.Configuration, f.ConfigurationSource, f.Assumed = release.Known(configuration.ManagerConfiguration), configuration.Source, configuration.Assumed
	}
	f.Manager = orAbsent(read[appsv1.Deployment](ctx, c, client.ObjectKey{Namespace: c.Namespace, Name: managerName}, "deployments.apps"))
	f.Agents = orAbsent(read[appsv1.DaemonSet](ctx, c, client.ObjectKey{Namespace: agentName, Name: agentName}, "daemonsets.apps"))
	if f.Agents.IsKnown() {
		f.AgentConfiguration = release.FactOf(c.agentConfiguration(ctx, f.Agents.Get()))
	}
	f.Certificate = orAbsent(read[corev1.Secret](ctx, c, client.ObjectKey{Namespace: c.Namespace, Name: certificateSecret}, "secrets"))
	f.Issuing = c.issuing(ctx)
	if f.Pods, err = c.podsOf(ctx, c.Namespace, "manager"); err != nil && f.Manager.IsKnown() {
		f.Manager = release.Unknown[*appsv1.Deployment](err.Error())
	}
	if f.AgentPods, err = c.podsOf(ctx, agentName, "agent"); err != nil && f.Agents.IsKnown() {
		f.Agents = release.Unknown[*appsv1.DaemonSet](err.Error())
	}
}

func (c *Cluster) podsOf(ctx context.Context, namespace, component string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	err := c.Pods(ctx, func(pod *corev1.Pod) { pods = append(pods, *pod) }, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": component})
	return pods, err
}

func (c *Cluster) nodePolicies(ctx context.Context) ([]v1alpha1.NodeResourcePolicy, error) {
	var policies []v1alpha1.NodeResourcePolicy
	err := each(ctx, c, inspect.PolicyResource, func(list *v1alpha1.NodeResourcePolicyList) { policies = append(policies, list.Items...) })
	return policies, err
}

// ipam reads whether pools are served, and whether the DaemonSets by which CNI DEL is known exist.
func (c *Cluster) ipam(ctx context.Context, f *doctor.Facts) {
	f.PoolsServed = release.FactOf(c.served(ctx, ippools))
	f.PoolNamespaces = release.FactOf(c.poolNamespaces(ctx))
	f.SlicePoolsServed = release.FactOf(c.served(ctx, ippools.GroupVersion().WithResource("nodeslicepools")))
	f.DaemonSets = map[string]release.Fact[*appsv1.DaemonSet]{}
	if !f.Configuration.IsKnown() {
		return
	}
	for _, name := range f.Configuration.Get().UnsafeReleases.DaemonSets {
		if ref, ok := ipam.ParsePodRef(name); ok {
			f.DaemonSets[name] = orAbsent(read[appsv1.DaemonSet](ctx, c, client.ObjectKey(ref), "daemonsets.apps"))
		}
	}
}

// poolNamespaces are the namespaces with IPPools; none where the type is not served.
func (c *Cluster) poolNamespaces(ctx context.Context) ([]string, error) {
	namespaces := sets.New[string]()
	err := walk(ctx, c, inspect.PoolResource, pages.Metadata(ctx, c.Client, ippools.GroupVersion().WithKind("IPPool")), func(list *metav1.PartialObjectMetadataList) {
		for i := range list.Items {
			namespaces.Insert(list.Items[i].Namespace)
		}
	})
	return sets.List(namespaces), orUnserved(err, new(bool))
}

// errNotProtected is why a dry run proves nothing.
var errNotProtected = errors.New("the namespace is one in which no pod is protected: name another with --namespace")

// probe is a pod that names a network which does not exist, so that it has to be protected. A namespace of the level "restricted" permits it.
func probe(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "holdfast-doctor-", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "holdfast-doctor"}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "none", Image: "registry.invalid/none", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
			AutomountServiceAccountToken: new(false),
		},
	}
}

// isExcluded reports whether no pod of a namespace is protected, by the configuration and the namespace's labels.
func (c *Cluster) isExcluded(ctx context.Context, namespace string) (bool, error) {
	var object corev1.Namespace
	if _, err := c.get(ctx, client.ObjectKey{Name: namespace}, &object, "namespaces"); err != nil {
		return false, err
	}
	configuration, err := c.Configuration(ctx)
	if err != nil {
		return false, err
	}
	return namespace == metav1.NamespaceSystem || namespace == c.Namespace || namespace == agentName ||
		slices.Contains(configuration.Protection.ExcludedNamespaces, namespace) || object.Labels[v1alpha1.OptOutLabel] == v1alpha1.GuardAnnotationOff, nil
}
