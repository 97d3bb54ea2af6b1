// SPDX-License-Identifier: Apache-2.0

// Package nodewait runs "manager wait-node-resource" as the init container of a node's agent does: the real command, with the token of the agent's
// pod and the permissions that its help names, on a real API server with the real garbage collector.
package nodewait

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	system = metav1.NamespaceSystem
	// agent is the ServiceAccount with what the help of the command names for one object, lister that for lists.
	agent, lister = "azure-cns", "lister"
	// configs and prefixes are policies.
	configs, prefixes = "nodenetworkconfigs", "nodeprefixes"

	dncFinalizer = "finalizers.acn.azure.com/dnc-operations"
)

var (
	plane, admin = fixture.Plane, fixture.Admin
	byPolicy     = []string{"--policy", configs, "--namespace", system}
)

var suite = fixture.NewSuite("nodewait", fixture.PlaneTwo, func(ctx context.Context) {
	DeferCleanup(gexec.Kill)
	fixture.Command("manager")
	serve(ctx, "nodeprefixes", "NodePrefix")
	for name, spec := range map[string]v1alpha1.NodeResourcePolicySpec{
		configs:  {Resource: v1alpha1.GuardedResource{Group: nodecrds.NodeNetworkConfigs.Group, Resource: "nodenetworkconfigs"}},
		prefixes: {Resource: v1alpha1.GuardedResource{Group: "example.com", Resource: "nodeprefixes", Versions: []string{"v1"}}, NodeName: v1alpha1.NodeNameSource{FieldPath: "spec.nodeName"}},
	} {
		Expect(admin.Create(ctx, &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})).To(Succeed())
	}
	for name, verbs := range map[string][]string{agent: {"get", "watch"}, lister: {"list", "watch"}} {
		fixture.CreateAccount(ctx, system, name)
		fixture.Grant(ctx, name, permissions(verbs...), fixture.AccountSubject(system, name))
		reader := fixture.Account(ctx, system, name, nil)
		Eventually(ctx, func() error { return reader.Get(ctx, client.ObjectKey{Name: configs}, &v1alpha1.NodeResourcePolicy{}) }).Should(Succeed())
	}
})

// permissions are those of the command's help, with these verbs for the resource.
func permissions(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "watch"}},
		{APIGroups: []string{"holdfast.dev"}, Resources: []string{"noderesourcepolicies"}, Verbs: []string{"get"}},
		{APIGroups: []string{nodecrds.NodeNetworkConfigs.Group, "example.com"}, Resources: []string{"nodenetworkconfigs", "nodeprefixes", "passingthings"}, Verbs: verbs},
	}
}

// serve defines a namespaced resource that can be selected by spec.nodeName.
func serve(ctx context.Context, plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	text := map[string]apiextensionsv1.JSONSchemaProps{"nodeName": {Type: "string"}}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec.nodeName"}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: text}}}},
			}},
		},
	}
	Expect(admin.Create(ctx, crd)).To(Succeed())
	return crd
}

// node is the name of the spec's machine.
var node string

var nodes int

func register(ctx context.Context) types.UID {
	GinkgoHelper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	Expect(admin.Create(ctx, object)).To(Succeed())
	return object.UID
}

// config is the machine's NodeNetworkConfig, owned by the Node of that UID.
func config(uid types.UID, finalizers ...string) *unstructured.Unstructured {
	u := nodecrds.NodeNetworkConfig(node, uid)
	u.SetFinalizers(finalizers)
	return u
}

// start runs the command in a pod of the account on the machine.
func start(ctx context.Context, account string, args ...string) *gexec.Session {
	GinkgoHelper()
	kubeconfig, err := controlplane.Kubeconfig(fixture.AccountConfig(ctx, system, account, fixture.DaemonPod(ctx, system, account, node)))
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	command := exec.Command(fixture.Command("manager"), slices.Concat([]string{"wait-node-resource", "--kubeconfig", path}, args)...)
	command.Env = append(os.Environ(), "NODE_NAME="+node)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait() })
	return session
}

// says matches a line on standard error that continues exactly like this.
func says(text string) gomegatypes.GomegaMatcher { return gbytes.Say(regexp.QuoteMeta(text)) }

// waitsFor waits for the line. The context is passed apart from the buffer, which Gomega would print, while it is written, to find
// out whether it is a duration.
func waitsFor(ctx context.Context, s *gexec.Session, text string) {
	GinkgoHelper()
	Eventually(s.Err).WithContext(ctx).Should(says(text))
	Expect(s.ExitCode()).To(Equal(-1), "it runs on")
}

func ends(ctx context.Context, s *gexec.Session, code int) {
	GinkgoHelper()
	Eventually(s).WithContext(ctx).Should(gexec.Exit(code))
}

var _ = suite.Describe("The wait for a node's resource", func() {
	BeforeEach(func() {
		nodes++
		node = fmt.Sprintf("aks-nodepool1-%d", nodes)
	})

	It("S2: keeps the agent of a replaced machine from what the machine before left, until its own is there", func(ctx context.Context) {
		old := register(ctx)
		before := config(old, dncFinalizer)
		Expect(admin.Create(ctx, before)).To(Succeed())
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())
		live := register(ctx)

		s := start(ctx, agent, byPolicy...)
		waitsFor(ctx, s, fmt.Sprintf("NodeNetworkConfig %s/%s speaks for Node %q, but carries UID %q; expected the live Node's UID only; the live Node has UID %q",
			system, node, node, old, live))
		waitsFor(ctx, s, "; it is being deleted; held by finalizers "+dncFinalizer+"; time-out in ") // by the garbage collector
		Expect(admin.Patch(ctx, before, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		waitsFor(ctx, s, "there is no NodeNetworkConfig "+system+"/"+node)
		Expect(admin.Create(ctx, config(live))).To(Succeed())
		ends(ctx, s, 0)
		Expect(s.Out).To(says(fmt.Sprintf("NodeNetworkConfig %s/%s speaks for Node %q and carries UID %q", system, node, node, live)))
	})

	It("I5: does not take a resource that is not served any more for an object that is not there", func(ctx context.Context) {
		crd := serve(ctx, "passingthings", "PassingThing")
		s := start(ctx, agent, "--resource", crd.Name, "--namespace", system, "--if-missing", "proceed")
		waitsFor(ctx, s, "there is no Node "+node)
		Expect(admin.Delete(ctx, crd)).To(Succeed())
		waitsFor(ctx, s, "the API server serves no "+crd.Name)
		register(ctx)
		Expect(s.ExitCode()).To(Equal(-1), "it runs on")
		serve(ctx, "passingthings", "PassingThing")
		ends(ctx, s, 0)
	})

	It("I5: outlives an API server that stops, and ends with a code of its own when it is stopped", func(ctx context.Context) {
		register(ctx)
		s := start(ctx, agent, append([]string{"--if-missing", "wait"}, byPolicy...)...)
		waitsFor(ctx, s, "there is no NodeNetworkConfig")
		Expect(plane.StopAPIServer()).To(Succeed())
		waitsFor(ctx, s, "connection refused")
		Expect(plane.StartAPIServer(ctx)).To(Succeed())
		waitsFor(ctx, s, "there is no NodeNetworkConfig")
		s.Terminate()
		ends(ctx, s, 4)
	})

	It("finds every object of the node by a field that the API server selects by", func(ctx context.Context) {
		live := register(ctx)
		prefix := func(name, of string, uid types.UID) *unstructured.Unstructured {
			u := config(uid, "example.com/hold")
			u.SetAPIVersion("example.com/v1")
			u.SetKind("NodePrefix")
			u.SetName(name)
			u.Object["spec"] = map[string]any{"nodeName": of}
			Expect(admin.Create(ctx, u)).To(Succeed())
			return u
		}
		own, stale := prefix(node+"-a", node, live), prefix(node+"-b", node, "1111")
		prefix(node+"-of-another", "another", "1111")
		s := start(ctx, lister, "--policy", prefixes)
		waitsFor(ctx, s, fmt.Sprintf("%s speaks for Node %q, but carries UID \"1111\"", stale.GetName(), node))
		Expect(s.Err.Contents()).NotTo(ContainSubstring("and 1 more"))
		Expect(client.IgnoreNotFound(admin.Delete(ctx, stale))).To(Succeed())
		waitsFor(ctx, s, "; it is being deleted; held by finalizers example.com/hold")
		Expect(admin.Patch(ctx, stale, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		ends(ctx, s, 0)
		Expect(s.Out).To(says(fmt.Sprintf("%s speaks for Node %q and carries UID %q", own.GetName(), node, live)))
	})
})
