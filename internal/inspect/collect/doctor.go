// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
	"github.com/holdfast-dev/holdfast/internal/ipam"
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
	f.APIServer = factOf(c.serverVersion)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !f.APIServer.IsKnown() {
		return nil, fmt.Errorf("the API server does not answer, so that nothing can be checked: %s", f.APIServer.Why())
	}
	c.installation(ctx, f)
	f.Webhooks = factOf(func() ([]doctor.Webhook, error) { return c.webhooks(ctx) })
	f.AdmissionPolicies = factOf(func() (doctor.AdmissionPolicies, error) { return c.admissionPolicies(ctx) })
	f.MutatingPoliciesServed = factOf(func() (bool, error) { return c.servesMutatingPolicies(ctx) })
	f.Protection = factOf(func() (doctor.Protection, error) { return c.tryProtection(ctx, namespace) })
	c.tryUpdates(ctx, f)
	c.rights(ctx, f)
	f.Nodes = factOf(func() ([]corev1.Node, error) { return c.Nodes(ctx) })
	f.Records = factOf(func() ([]v1alpha1.IPAllocation, error) {
		records, err := c.Records(ctx)
		return records, orUnserved(err, &f.Unserved.Records)
	})
	f.GuardedNodes = factOf(func() ([]v1alpha1.GuardedNode, error) { return c.GuardedNodes(ctx) })
	f.Events = factOf(func() ([]inspect.Event, error) { return c.OurEvents(ctx) })
	f.Policies = factOf(func() ([]v1alpha1.NodeResourcePolicy, error) {
		policies, err := c.nodePolicies(ctx)
		return policies, orUnserved(err, &f.Unserved.Policies)
	})
	c.ipam(ctx, f)
	return f, ctx.Err()
}

func (c *Cluster) serverVersion() (string, error) {
	finder, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return "", err
	}
	version, err := finder.ServerVersion()
	if err != nil {
		return "", err
	}
	return version.GitVersion, nil
}

// servesMutatingPolicies says whether version v1 is served; earlier versions do not count.
func (c *Cluster) servesMutatingPolicies(ctx context.Context) (bool, error) {
	finder, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return false, err
	}
	list, err := finder.ServerResourcesForGroupVersionWithContext(ctx, admissionregistrationv1.SchemeGroupVersion.String())
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
	f.Manager = object[appsv1.Deployment](ctx, c, client.ObjectKey{Namespace: c.Namespace, Name: managerName}, "deployments.apps")
	f.Agents = object[appsv1.DaemonSet](ctx, c, client.ObjectKey{Namespace: agentName, Name: agentName}, "daemonsets.apps")
	f.Certificate = object[corev1.Secret](ctx, c, client.ObjectKey{Namespace: c.Namespace, Name: certificateSecret}, "secrets")
	f.Issuing = c.issuing(ctx)
	if f.Pods, err = c.podsOf(ctx, c.Namespace, "manager"); err != nil && f.Manager.IsKnown() {
		f.Manager = release.Unknown[*appsv1.Deployment](err.Error())
	}
	if f.AgentPods, err = c.podsOf(ctx, agentName, "agent"); err != nil && f.Agents.IsKnown() {
		f.Agents = release.Unknown[*appsv1.DaemonSet](err.Error())
	}
}

// object reads one object as a fact.
func object[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c *Cluster, key client.ObjectKey, resource string) release.Fact[P] {
	var value P = new(T)
	found, err := c.get(ctx, key, value, resource)
	switch {
	case err != nil:
		return release.Unknown[P](err.Error())
	case !found:
		return release.Absent[P]()
	}
	return release.Known(value)
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

// ipam looks whether pools are served, and whether the DaemonSets by which CNI DEL is known exist.
func (c *Cluster) ipam(ctx context.Context, f *doctor.Facts) {
	f.PoolsServed = factOf(func() (bool, error) { return c.served(ctx, ippools) })
	f.SlicePoolsServed = factOf(func() (bool, error) { return c.served(ctx, ippools.GroupVersion().WithResource("nodeslicepools")) })
	f.DaemonSets = map[string]release.Fact[struct{}]{}
	if !f.Configuration.IsKnown() {
		return
	}
	for _, name := range f.Configuration.Get().UnsafeReleases.DaemonSets {
		ref, ok := ipam.ParsePodRef(name)
		if !ok {
			continue
		}
		found, err := c.get(ctx, client.ObjectKey(ref), &appsv1.DaemonSet{}, "daemonsets.apps")
		switch {
		case err != nil:
			f.DaemonSets[name] = release.Unknown[struct{}](err.Error())
		case !found:
			f.DaemonSets[name] = release.Absent[struct{}]()
		default:
			f.DaemonSets[name] = release.Known(struct{}{})
		}
	}
}

// neededRights are what the accounts cannot work without (config/rbac/role.yaml, config/agent/role.yaml).
var neededRights = []struct{ verbs, group, resource, subresource, namespace string }{
	{"get list watch patch", "", "pods", "", ""},
	{"patch", "", "pods", "status", ""},
	{"get list watch", "", "nodes", "", ""},
	{"get list watch create update delete", "holdfast.dev", "ipallocations", "", ""},
	{"patch update", "holdfast.dev", "ipallocations", "status", ""},
	{"get list watch create update delete", "holdfast.dev", "guardednodes", "", ""},
	{"get list watch create update", "holdfast.dev", "allnodesqueries", "", ""},
	{"get list watch patch", "whereabouts.cni.cncf.io", "ippools", "", ""},
	{"get list create patch delete", "whereabouts.cni.cncf.io", "overlappingrangeipreservations", "", ""},
	{"get list patch", "whereabouts.cni.cncf.io", "nodeslicepools", "", ""},
	{"get list watch", "k8s.cni.cncf.io", "network-attachment-definitions", "", ""},
	{"create patch", "events.k8s.io", "events", "", ""},
	{"get", "coordination.k8s.io", "leases", "", corev1.NamespaceNodeLease},
	{"create", "coordination.k8s.io", "leases", "", "manager"},
}

var neededByAgents = []struct{ verbs, group, resource, subresource, namespace string }{
	{"get", "", "nodes", "", ""},
	{"list watch", "holdfast.dev", "allnodesqueries", "", ""},
	{"get list watch", "holdfast.dev", "guardednodes", "", ""},
	{"update", "holdfast.dev", "guardednodes", "status", ""},
}

// rights asks the API server whether the accounts have what they need.
func (c *Cluster) rights(ctx context.Context, f *doctor.Facts) {
	type account struct {
		user   string
		rights []struct{ verbs, group, resource, subresource, namespace string }
	}
	accounts := []account{{"system:serviceaccount:" + c.Namespace + ":" + managerName, neededRights}}
	if f.Agents.IsKnown() {
		accounts = append(accounts, account{"system:serviceaccount:" + agentName + ":" + agentName, neededByAgents})
	}
	for _, a := range accounts {
		for _, r := range a.rights {
			for verb := range strings.FieldsSeq(r.verbs) {
				attributes := &authorizationv1.ResourceAttributes{Verb: verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace}
				if r.namespace == "manager" {
					attributes.Namespace = c.Namespace
				}
				right, err := c.review(ctx, a.user, attributes)
				if err != nil {
					f.RightsUnread = err.Error()
					return
				}
				f.Rights = append(f.Rights, right)
			}
		}
	}
}

func (c *Cluster) review(ctx context.Context, user string, attributes *authorizationv1.ResourceAttributes) (doctor.Right, error) {
	namespace, _, _ := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}, ResourceAttributes: attributes}}
	if err := c.Client.Create(ctx, review); err != nil {
		return doctor.Right{}, readError(err, "create", "subjectaccessreviews.authorization.k8s.io", cluster)
	}
	resource := attributes.Resource
	if attributes.Group != "" {
		resource += "." + attributes.Group
	}
	if attributes.Subresource != "" {
		resource += "/" + attributes.Subresource
	}
	c.Progress("asking for the rights of %s", user)
	return doctor.Right{Account: user, Verb: attributes.Verb, Resource: resource, Namespace: attributes.Namespace, Allowed: review.Status.Allowed}, nil
}

// errNotProtected says why a dry run proves nothing.
var errNotProtected = errors.New("the namespace is one in which no pod is protected: name another with --namespace")

// probe is a pod that names a network which does not exist: nobody can resolve it, so it has to be protected. It asks for nothing
// that a namespace of the level "restricted" refuses.
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

// isExcluded says whether no pod of a namespace is ever protected, as far as the configuration and its labels say.
func (c *Cluster) isExcluded(ctx context.Context, namespace string) (bool, error) {
	var object corev1.Namespace
	if _, err := c.get(ctx, client.ObjectKey{Name: namespace}, &object, "namespaces"); err != nil {
		return false, err
	}
	return namespace == metav1.NamespaceSystem || namespace == c.Namespace || namespace == agentName ||
		object.Labels[v1alpha1.OptOutLabel] == v1alpha1.GuardAnnotationOff, nil
}
