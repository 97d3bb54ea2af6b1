// SPDX-License-Identifier: Apache-2.0

// Package noderesources runs the webhook of node-scoped resources behind the entries that NodeResourcePolicies compile to: the IPAMs' own
// definitions, the real garbage collector, and tokens of pods on nodes. The judgments themselves are those of internal/nodeidentity and
// webhooks, which their unit tests show.
package noderesources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/kept"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const (
	system = metav1.NamespaceSystem
	// exempt is a user whom the policy nnc exempts.
	exempt = "exempt"
	// keepLabel is on objects that the garbage collector is kept from deleting, so that a spec can look at stale ones.
	keepLabel = "test.holdfast.dev/keep"
)

var (
	admin client.Client
	// warned is what the API server warned the administrator of.
	warned fixture.Warnings
)

// guarded is what a policy is about: its resource, what it says beside that, and what makes an object of it for a node, with the UID of a Node.
type guarded struct {
	resource schema.GroupVersionResource
	change   func(*v1alpha1.NodeResourcePolicySpec)
	build    func(node string, uid types.UID) *unstructured.Unstructured
}

// policies, by name.
var policies = map[string]guarded{
	"nnc": {nodecrds.NodeNetworkConfigs, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.ExemptUsers = []string{exempt}
		s.Addresses = []string{"self.status.networkContainers.filter(c, has(c.primaryIP)).map(c, c.primaryIP)"}
	}, nodecrds.NodeNetworkConfig},
	"cilium": {nodecrds.CiliumNodes, func(s *v1alpha1.NodeResourcePolicySpec) { s.MissingNode = v1alpha1.MissingNodeDeny }, nodecrds.CiliumNode},
	"hostsubnet": {nodecrds.HostSubnets, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeUID.Annotation = nodecrds.HostSubnetUIDAnnotation
	}, nodecrds.HostSubnet},
	"affinity": {nodecrds.BlockAffinities, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.FieldPath, s.NodeUID.Presence, s.Resource.Versions = "spec.node", v1alpha1.UIDIfPresent, []string{"v1"}
	}, func(node string, uid types.UID) *unstructured.Unstructured {
		return with(nodecrds.BlockAffinity(node), nodeReference(node, uid))
	}},
	"block": {nodecrds.IPAMBlocks, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.Resource.Versions = []string{"v1"}
		s.NodeName.Expression = "self.spec.affinity.startsWith('host:') ? self.spec.affinity.substring(5) : ''"
	}, func(node string, uid types.UID) *unstructured.Unstructured {
		o := with(nodecrds.IPAMBlock(node), nodeReference(node, uid))
		o.SetName("block-" + node)
		return o
	}},
	"cninode": {nodecrds.CNINodes, func(s *v1alpha1.NodeResourcePolicySpec) { s.Action = v1alpha1.PolicyWarn }, nodecrds.CNINode},
	"topology": {nodecrds.NodeResourceTopologies, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.Action, s.Resource.Versions = v1alpha1.PolicyAudit, []string{"v1alpha2"}
	}, nodecrds.NodeResourceTopology},
}

var suite = fixture.NewSuite("noderesources", fixture.PlaneTwo, func(ctx context.Context) {
	config := fixture.Plane.Config()
	config.WarningHandlerWithContext = &warned
	admin = fixture.Client(config)
	var groups []string
	var resources []schema.GroupVersionResource
	for _, p := range policies {
		groups, resources = append(groups, p.resource.Group), append(resources, p.resource)
	}
	fixture.CreateAccount(ctx, system, "agent")
	fixture.Grant(ctx, "agents", []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}},
		fixture.AccountSubject(system, "agent"), fixture.UserSubject(exempt))
	fixture.KeepFromCollector(ctx, map[string]string{keepLabel: "true"}, resources...)
	startGuard(ctx)
	for name, p := range policies {
		guardBy(ctx, name, p)
	}
})

// guardBy makes a policy and what it compiles to, and waits until the API server asks the webhook.
func guardBy(ctx context.Context, name string, p guarded) {
	GinkgoHelper()
	policy := &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeResourcePolicySpec{
		Resource: v1alpha1.GuardedResource{Group: p.resource.Group, Resource: p.resource.Resource}, TimeoutSeconds: 3}}
	p.change(&policy.Spec)
	Expect(admin.Create(ctx, policy)).To(Succeed())
	compiled, err := nodepolicy.Compile(policy)
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{compiled.Entry(guard.target, guard.ca)}})).To(Succeed())
	Eventually(ctx, func() []call {
		_ = admin.Create(ctx, p.build("probe", "absent"), client.DryRunAll) // refused or not, it was asked or not
		return guard.callsAbout("probe", name)
	}).ShouldNot(BeEmpty(), name)
	warned.Take()
}

// guard is the manager under test, in this process, and what it was asked.
var guard = &guardReplica{}

// call is a request that reached the webhook.
type call struct{ policy, user, version, object string }

type guardReplica struct {
	target nodepolicy.Target
	ca     []byte
	mu     sync.Mutex
	calls  []call
}

// startGuard runs a manager with the webhook and nothing else, with no more rights than the webhook's markers ask for.
func startGuard(ctx context.Context) {
	GinkgoHelper()
	install := envtest.WebhookInstallOptions{}
	Expect(install.PrepWithoutInstalling()).To(Succeed())
	DeferCleanup(install.Cleanup)
	guard.target.URL = "https://" + net.JoinHostPort(install.LocalServingHost, strconv.Itoa(install.LocalServingPort))
	guard.ca = install.LocalServingCAData
	server := &recordingServer{webhook.NewServer(webhook.Options{
		Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir})}
	identity, _, err := fixture.Plane.AddUser("guard")
	Expect(err).NotTo(HaveOccurred())
	readOnly := []string{"get", "list", "watch"}
	fixture.Grant(ctx, "guard", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: readOnly},
		{APIGroups: []string{"holdfast.dev"}, Resources: []string{"noderesourcepolicies"}, Verbs: readOnly},
	}, fixture.UserSubject("guard"))
	fixture.RunManager(ctx, func(running context.Context) (manager.Manager, error) {
		mgr, err := manager.New(identity, manager.Options{
			Scheme: fixture.Scheme, Logger: GinkgoLogr, WebhookServer: server, Metrics: metricsserver.Options{BindAddress: "0"},
			Cache: cache.Options{ByObject: kept.ByObject()},
		})
		if err != nil {
			return nil, err
		}
		mgr.GetWebhookServer().Register(convertPath, http.HandlerFunc(convert))
		return mgr, webhooks.SetupNodeResourceWebhook(running, mgr)
	})
	started := server.StartedChecker()
	Eventually(ctx, func() error { return started(nil) }).Should(Succeed())
}

// recordingServer notes what reaches the webhook.
type recordingServer struct{ webhook.Server }

// Register takes a handler.
func (s *recordingServer) Register(at string, hook http.Handler) {
	s.Server.Register(at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var review admissionv1.AdmissionReview
		var object metav1.PartialObjectMetadata
		if err == nil && json.Unmarshal(body, &review) == nil && review.Request != nil && json.Unmarshal(review.Request.Object.Raw, &object) == nil {
			guard.mu.Lock()
			guard.calls = append(guard.calls, call{path.Base(r.URL.Path), review.Request.UserInfo.Username, review.Request.Resource.Version, object.Name})
			guard.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		hook.ServeHTTP(w, r)
	}))
}

// callsAbout are the calls about objects with a node's name in their own; those of some policies where these are named. The garbage collector's
// are none.
func (g *guardReplica) callsAbout(node string, policies ...string) []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	var picked []call
	for _, c := range g.calls {
		if strings.Contains(c.object, node) && c.user != fixture.Collector && (len(policies) == 0 || c.policy == policies[0]) {
			picked = append(picked, c)
		}
	}
	return picked
}

func (g *guardReplica) collectorsCalls(node string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if strings.Contains(c.object, node) && c.user == fixture.Collector {
			n++
		}
	}
	return n
}

// agentOn is a CNI agent: it has the token of a pod that is bound to the node.
func agentOn(ctx context.Context, node string) client.Client {
	GinkgoHelper()
	return fixture.Account(ctx, system, "agent", fixture.DaemonPod(ctx, system, "agent", node))
}

var nodes int

// newNode registers a Node of a name that no other spec has, as a kubelet does.
func newNode(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	nodes++
	return register(ctx, fmt.Sprintf("node-%04d", nodes))
}

func register(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(admin.Create(ctx, node)).To(Succeed())
	return node
}

// replace deletes a Node and registers another one under its name.
func replace(ctx context.Context, node *corev1.Node) *corev1.Node {
	GinkgoHelper()
	Expect(admin.Delete(ctx, node.DeepCopy())).To(Succeed())
	return register(ctx, node.Name)
}

// keep labels an object so that the garbage collector may not delete it.
func keep(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetLabels(map[string]string{keepLabel: "true"})
	return o
}

func nodeReference(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}
}

// with gives an object these owners and no other.
func with(o *unstructured.Unstructured, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	o.SetOwnerReferences(owners)
	return o
}

func merge(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}

// fresh reads an object again.
func fresh(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	live := o.DeepCopy()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), live)).To(Succeed())
	return live
}

// gone reports whether an object is not there any more.
func gone(ctx context.Context, o client.Object) func() bool {
	return func() bool {
		return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)))
	}
}

// expectRefused wants the refusal of a policy, for a reason.
func expectRefused(err error, policy string, reason v1alpha1.Reason, says ...string) {
	GinkgoHelper()
	Expect(err).To(MatchError(HavePrefix(`admission webhook "%s" denied the request: NodeResourcePolicy %s: %s: `, nodepolicy.EntryName(policy), policy, reason)))
	for _, say := range says {
		Expect(err).To(MatchError(ContainSubstring(say)))
	}
}
