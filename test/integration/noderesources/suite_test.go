// SPDX-License-Identifier: Apache-2.0

// Package noderesources_test runs the webhook of node-scoped resources on a real control plane, behind the entries that
// NodeResourcePolicies compile to: the IPAMs' own definitions, the real garbage collector, and tokens of pods on nodes.
package noderesources_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what takes milliseconds on an idle machine; the garbage collector may take some rounds.
	soon = time.Minute
	// startTimeout bounds the start of everything.
	startTimeout = 5 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository = "../../.."
	// system is the namespace of NodeNetworkConfigs and of the agents.
	system = metav1.NamespaceSystem
	// collector is the user of kube-controller-manager's garbage collector.
	collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	// exempt is a user whom the policy nnc exempts.
	exempt = "exempt"
	// keepLabel is on objects that the garbage collector is kept from deleting, so that a spec can look at stale ones.
	keepLabel = "test.holdfast.dev/keep"
)

var (
	plane *controlplane.ControlPlane
	// admin may do everything, like an IPAM's operator; its token is bound to no node.
	admin    *actor
	scheme   = runtime.NewScheme()
	auditLog string
)

func TestNodeResources(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	name, suite, reporter := secondpass.Configuration("Node-scoped resources")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(secondpass.Patience(soon))
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	crds, err := nodecrds.Paths(ctx)
	Expect(err).NotTo(HaveOccurred())
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: append(crds, filepath.Join(repository, "config/crd/bases")), NodeMonitorGracePeriod: time.Hour,
		APIServerArgs: auditing(), Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin = newActor(plane.Config())

	grant(ctx, "agents", []rbacv1.PolicyRule{{APIGroups: groups(), Resources: []string{"*"}, Verbs: []string{"*"}}},
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: "agent"}, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: exempt})
	Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "agent"}})).To(Succeed())
	keepFromCollector(ctx)
	startGuard(ctx)
	installBase(ctx)
}, NodeTimeout(startTimeout))

// auditing makes the API server write the metadata of every write of the guarded resources, with its annotations.
func auditing() map[string]string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	Expect(os.WriteFile(policy, []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch]
    resources: [{group: topology.node.k8s.io}, {group: acn.azure.com}]
  - level: None
`), 0o600)).To(Succeed())
	auditLog = filepath.Join(dir, "audit.log")
	return map[string]string{"audit-policy-file": policy, "audit-log-path": auditLog}
}

// grant gives rights to subjects.
func grant(ctx context.Context, name string, rules []rbacv1.PolicyRule, subjects ...rbacv1.Subject) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})).To(Succeed())
	Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}})).To(Succeed())
}

// keepFromCollector makes the API server refuse the garbage collector's deletions of what has the label. An object that
// has lost its Node is else gone, or being deleted, before a spec can write it.
func keepFromCollector(ctx context.Context) {
	GinkgoHelper()
	const name = "keep.test.holdfast.dev"
	Expect(admin.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{keepLabel: "true"}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule:       admissionregistrationv1.Rule{APIGroups: groups(), APIVersions: []string{"*"}, Resources: []string{"*"}},
				}}},
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "collector", Expression: "request.userInfo.username == '" + collector + "'"}},
			Validations:     []admissionregistrationv1.Validation{{Expression: "false", Message: "kept for a spec"}},
		},
	})).To(Succeed())
	Expect(admin.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	})).To(Succeed())

	identity := rest.CopyConfig(plane.Config())
	identity.Impersonate = rest.ImpersonationConfig{UserName: collector}
	asCollector := newActor(identity)
	kept := keep(nodecrds.NodeInfo("kept", "kept"))
	kept.SetOwnerReferences(nil)
	Expect(admin.Create(ctx, kept)).To(Succeed())
	Eventually(func() error { return asCollector.Delete(ctx, kept, client.DryRunAll) }).Should(MatchError(ContainSubstring("kept for a spec")))
}
