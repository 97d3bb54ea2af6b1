// SPDX-License-Identifier: Apache-2.0

// Package nodewait_test runs "manager wait-node-resource" as the init container of a node's agent does: the real command,
// with the token of the agent's pod and the permissions that its help names, on a real API server with the real garbage
// collector.
package nodewait_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	repository = "../../.."

	// startTimeout bounds the start of the control plane on a busy machine.
	startTimeout = 5 * time.Minute
	// soon bounds what the command does after an event, or at the latest 15 s later.
	soon = 90 * time.Second
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	// system is the namespace of the agent and of its objects.
	system = "kube-system"
	// agent is the ServiceAccount with what the help of the command names for one object, lister that for lists.
	agent, lister = "azure-cns", "lister"
)

var (
	plane   *controlplane.ControlPlane
	admin   client.Client
	manager string // the command
	scheme  = runtime.NewScheme()
)

func TestNodeWait(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Waiting for node resources")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	Expect(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))).To(Succeed())

	manager = filepath.Join(GinkgoT().TempDir(), "manager")
	build := exec.CommandContext(ctx, "go", "build", "-o", manager, "./cmd/manager")
	build.Dir, build.Stdout, build.Stderr = repository, GinkgoWriter, GinkgoWriter
	Expect(build.Run()).To(Succeed())

	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{"testdata", filepath.Join(repository, "config/crd/bases/holdfast.dev_noderesourcepolicies.yaml")}, Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	DeferCleanup(gexec.Kill)
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	createPolicies(ctx)
	account(ctx, agent)
	grant(ctx, agent, permissions("get", "watch")...)
	account(ctx, lister)
	grant(ctx, lister, permissions("list", "watch")...)
	for _, name := range []string{agent, lister} { // else the first spec begins with a refusal
		reader, err := client.New(impersonate(ctx, name, nil), client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error {
			return reader.Get(ctx, client.ObjectKey{Name: optional}, &v1alpha1.NodeResourcePolicy{})
		}).Should(Succeed())
	}
}, NodeTimeout(startTimeout))

// permissions are those of the command's help, with these verbs for the resource.
func permissions(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "watch"}},
		{APIGroups: []string{"holdfast.dev"}, Resources: []string{"noderesourcepolicies"}, Verbs: []string{"get"}},
		{
			APIGroups: []string{"acn.azure.com", "network.openshift.io", "crd.projectcalico.org", "example.com"},
			Resources: []string{"nodenetworkconfigs", "hostsubnets", "blockaffinities", "nodeprefixes", "passingthings"}, Verbs: verbs,
		},
	}
}

func account(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}})).To(Succeed())
}

func grant(ctx context.Context, name string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}, Rules: rules}
	Expect(admin.Create(ctx, role)).To(Succeed())
	Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: name}},
	})).To(Succeed())
}
