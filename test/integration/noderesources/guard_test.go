// SPDX-License-Identifier: Apache-2.0

package noderesources_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const guardUser = "guard"

var errNoAnswer = errors.New("as if the API server did not answer")

// guard is the manager under test, in this process, and what it was asked and has read.
var guard = &guardReplica{liveReads: map[string]int{}, frozen: map[string]*corev1.Node{}}

// call is a request that reached the webhook.
type call struct {
	policy, user, version, subresource, object string
	operation                                  admissionv1.Operation
	dryRun                                     bool
}

type guardReplica struct {
	target nodepolicy.Target
	ca     []byte
	cache  cache.Cache

	mu        sync.Mutex
	calls     []call
	liveReads map[string]int
	// frozen Nodes are what the cache goes on to show.
	frozen map[string]*corev1.Node
	// cutOff makes live reads of Nodes fail.
	cutOff bool
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

	identity, _, err := plane.AddUser(guardUser)
	Expect(err).NotTo(HaveOccurred())
	readOnly := []string{"get", "list", "watch"}
	grant(ctx, guardUser, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: readOnly},
		{APIGroups: []string{"holdfast.dev"}, Resources: []string{"noderesourcepolicies"}, Verbs: readOnly},
	}, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: guardUser})
	identity.Wrap(func(next http.RoundTripper) http.RoundTripper { return &nodeReads{next} })
	secondpass.Wrap(identity, secondpass.LiveReads)
	mgr, err := secondpass.Start(func() (manager.Manager, error) {
		return manager.New(identity, manager.Options{
			Scheme: scheme, Logger: GinkgoLogr, WebhookServer: server, Metrics: metricsserver.Options{BindAddress: "0"},
			Cache:    cache.Options{ByObject: controllers.CacheByObject()},
			NewCache: newFreezer,
		})
	})
	Expect(err).NotTo(HaveOccurred())

	mgr.GetWebhookServer().Register(convertPath, http.HandlerFunc(convert))
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	Expect(webhooks.SetupNodeResourceWebhook(running, mgr, webhooks.NodeResourceOptions{})).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(Succeed()))
	})
	checkStarted := server.StartedChecker()
	Eventually(func() error { return checkStarted(nil) }).Should(Succeed())
}

// recordingServer notes what reaches the webhook.
type recordingServer struct{ webhook.Server }

func (s *recordingServer) Register(at string, hook http.Handler) {
	s.Server.Register(at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			guard.note(path.Base(r.URL.Path), body)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		hook.ServeHTTP(w, r)
	}))
}

func (g *guardReplica) note(policy string, body []byte) {
	var review admissionv1.AdmissionReview
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(body, &review) != nil || review.Request == nil || json.Unmarshal(review.Request.Object.Raw, &object) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, call{
		policy: policy, user: review.Request.UserInfo.Username, operation: review.Request.Operation,
		version: review.Request.Resource.Version, subresource: review.Request.SubResource,
		object: object.Name, dryRun: review.Request.DryRun != nil && *review.Request.DryRun,
	})
}

// called are the calls that a predicate picks.
func (g *guardReplica) called(pick func(call) bool) []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	var picked []call
	for _, c := range g.calls {
		if pick(c) {
			picked = append(picked, c)
		}
	}
	return picked
}

// callsAbout are the calls about objects with a node's name in their own, without the garbage collector's.
func (g *guardReplica) callsAbout(node string) []call {
	return g.called(func(c call) bool { return strings.Contains(c.object, node) && c.user != collector })
}

func (g *guardReplica) collectorsCalls(node string) []call {
	return g.called(func(c call) bool { return strings.Contains(c.object, node) && c.user == collector })
}

func (g *guardReplica) liveReadsOf(node string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.liveReads[node]
}

// isCutOff makes live reads of Nodes fail until the spec ends.
func (g *guardReplica) isCutOff() {
	set := func(cutOff bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.cutOff = cutOff
	}
	set(true)
	DeferCleanup(func() { set(false) })
}

// nodeReads counts the reads of single Nodes, which are those past the cache, and fails them where it has to.
type nodeReads struct{ next http.RoundTripper }

func (t *nodeReads) RoundTrip(r *http.Request) (*http.Response, error) {
	if node, single := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); single {
		guard.mu.Lock()
		guard.liveReads[node]++
		cutOff := guard.cutOff
		guard.mu.Unlock()
		if cutOff {
			return nil, errNoAnswer
		}
	}
	return t.next.RoundTrip(r)
}

// freezer is a cache that shows some Nodes as they were.
type freezer struct{ cache.Cache }

func newFreezer(config *rest.Config, o cache.Options) (cache.Cache, error) {
	inner, err := cache.New(config, o)
	guard.cache = inner
	return &freezer{inner}, err
}

func (f *freezer) Get(ctx context.Context, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
	if node, isNode := object.(*corev1.Node); isNode {
		guard.mu.Lock()
		frozen := guard.frozen[key.Name]
		guard.mu.Unlock()
		if frozen != nil {
			frozen.DeepCopyInto(node)
			return nil
		}
	}
	return f.Cache.Get(ctx, key, object, o...)
}

// awaitCached waits until the guard's cache has this Node.
func (g *guardReplica) awaitCached(ctx context.Context, name string, uid types.UID) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{}
	Eventually(func() (types.UID, error) {
		err := g.cache.Get(ctx, client.ObjectKey{Name: name}, node)
		return node.UID, err
	}).Should(Equal(uid))
	return node
}

// freeze makes the guard's cache show a Node as it is now.
func (g *guardReplica) freeze(ctx context.Context, name string, uid types.UID) {
	GinkgoHelper()
	node := g.awaitCached(ctx, name, uid)
	g.mu.Lock()
	defer g.mu.Unlock()
	frozen := maps.Clone(g.frozen)
	frozen[name] = node
	g.frozen = frozen
}
