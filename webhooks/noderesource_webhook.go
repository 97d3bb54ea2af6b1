// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies,verbs=get;list;watch

// SetupNodeResourceWebhook registers the webhook that judges writes of node-scoped resources, for every NodeResourcePolicy
// under a path of its own (internal/nodepolicy.PathPrefix). Policies and Nodes are read from the manager's cache;
// a Node that decides against a write is read past it.
func SetupNodeResourceWebhook(ctx context.Context, mgr manager.Manager) error {
	// Every replica serves, and is ready once its caches are full: those of the controllers fill on the leader only.
	for _, object := range []client.Object{&v1alpha1.NodeResourcePolicy{}, &corev1.Node{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T for the webhook of node-scoped resources: %w", object, err)
		}
	}
	guard := newNodeResourceGuard(mgr.GetCache(), mgr.GetAPIReader())
	mgr.GetWebhookServer().Register(nodepolicy.PathPrefix, guard.serve())
	return nil
}

// SetupDisabledNodeResourceWebhook allows every write, unread: until the leader has taken the webhooks of a guard
// that was turned off away, replicas that know of it are still called.
func SetupDisabledNodeResourceWebhook(mgr manager.Manager) {
	mgr.GetWebhookServer().Register(nodepolicy.PathPrefix, Serve("node-resources",
		admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			return admission.Allowed("the guard of node-scoped resources is turned off")
		})))
}

// nodeResourceGuard judges the writes of all policies.
type nodeResourceGuard struct {
	// cached may only allow; live bypasses every cache.
	cached, live client.Reader
	compiled     *compiledPolicies
}

func newNodeResourceGuard(cached, live client.Reader) *nodeResourceGuard {
	return &nodeResourceGuard{cached: cached, live: live, compiled: newCompiledPolicies()}
}

type policyNameKey struct{}

// serve makes the HTTP handler of every path under the prefix: what follows it is the name of the policy.
func (g *nodeResourceGuard) serve() http.Handler {
	inner := Serve("node-resources", g)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, nodepolicy.PathPrefix)
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), policyNameKey{}, name)))
	})
}

// Handle judges one write by the policy of the path. It has no side effects, so a dry run is judged like any write.
func (g *nodeResourceGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	started := clock.RealClock{}.Now()
	name, _ := ctx.Value(policyNameKey{}).(string)
	r := g.judge(ctx, name, &req)
	metrics.NodeResourceDuration.WithLabelValues(r.policy).Observe(clock.RealClock{}.Since(started).Seconds())
	metrics.NodeResourceWrites.WithLabelValues(r.policy, r.decision(), string(r.Reason)).Inc()
	return r.respond(ctx, &req)
}
