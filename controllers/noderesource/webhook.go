// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/served"
)

// WebhooksFieldManager is the field manager of what the webhook controller writes: the webhook configuration, and the conditions Accepted
// and Enforced of the policies.
const WebhooksFieldManager = "holdfast-webhooks"

const (
	// webhookDiscoverySettles is how long after a change of a CustomResourceDefinition discovery may still say what was before.
	webhookDiscoverySettles = time.Minute
	// webhookSettlingPause is the shortest time between two looks while it may.
	webhookSettlingPause = time.Second
	// webhookUnservedInterval is how often a resource that is not served is looked for. An aggregated API has no definition
	// whose change could be watched.
	webhookUnservedInterval = 5 * time.Minute
	// webhookFirstRetry and webhookLastRetry bound the time to the next try after a failure.
	webhookFirstRetry, webhookLastRetry = 50 * time.Millisecond, time.Minute
	// webhookRejectedInterval is how often an entry that the API server refused is tried again: the server may have been
	// replaced by a newer one.
	webhookRejectedInterval = 10 * time.Minute
)

// webhookReconciler generates the webhook configuration of the NodeResourcePolicies, keeps it as it has to be, and says of each policy
// whether it is accepted and enforced. There is one request, the configuration, and one reconciliation at a time.
type webhookReconciler struct {
	// client reads from the cache.
	client   client.Client
	live     client.Reader
	api      served.API
	recorder events.EventRecorder
	options  Options

	definitions webhookDefinitions
	// presetsApplied are the names of the presets that this process has applied.
	presetsApplied sets.Set[string]

	// synced is what was wanted when everything was last looked at; nil if there was to be none, or nobody looked yet.
	synced *admissionregistrationv1.ValidatingWebhookConfiguration
	// rejections are the entries that the API server did not take, by the policy's UID.
	rejections map[types.UID]webhookRejection
	contest    webhookContest
}

// webhookRejection is the API server's word about the entry of one generation of a policy.
type webhookRejection struct {
	generation int64
	message    string
	at         time.Time
}

func setupWebhooks(mgr manager.Manager, api served.API, o Options) error {
	k := &webhookReconciler{
		client:     mgr.GetClient(),
		live:       mgr.GetAPIReader(),
		api:        api,
		recorder:   mgr.GetEventRecorder("holdfast"),
		options:    o,
		rejections: map[types.UID]webhookRejection{},

		presetsApplied: sets.New[string](),
	}
	c, err := controller.New("node-resource-webhooks", mgr, controller.Options{Reconciler: k, MaxConcurrentReconciles: 1,
		RateLimiter: retries[reconcile.Request](o, webhookFirstRetry, webhookLastRetry)})
	if err != nil {
		return fmt.Errorf("setting up the webhook controller: %w", err)
	}
	for _, watched := range append(k.sources(mgr.GetCache()), webhookStart()) {
		if err := c.Watch(watched); err != nil {
			return fmt.Errorf("setting up the webhook controller: %w", err)
		}
	}
	return nil
}

// Reconcile compares what is with what has to be. What the caches say may only lead to a second look, at the API server
// itself: an entry is never dropped, and an authority never chosen, because a cache is late.
func (k *webhookReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := k.options.Clock.Now()
	k.contest.endIfQuiet(now)
	if err := k.applyPresets(ctx); err != nil {
		return reconcile.Result{}, err
	}
	asked := webhookServedMemo{}
	pass, err := k.look(ctx, k.client, asked, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !pass.synced() {
		if pass, err = k.look(ctx, k.live, asked, now); err != nil {
			return reconcile.Result{}, err
		}
		if err := k.write(ctx, pass); err != nil {
			return reconcile.Result{}, err
		}
	}
	k.synced = pass.wanted()
	k.forgetRejections(pass)
	pass.report()
	if err := errors.Join(pass.unknown()...); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: k.lookAgain(pass)}, nil
}

// lookAgain is when to look again though nothing is going to say so; zero for never.
func (k *webhookReconciler) lookAgain(pass *webhookPass) time.Duration {
	if len(pass.policies) == 0 {
		return 0
	}
	var after time.Duration
	sooner := func(d time.Duration) {
		if after == 0 || d < after {
			after = d
		}
	}
	if pass.unserved() {
		sooner(webhookUnservedInterval)
	}
	for _, rejection := range k.rejections {
		sooner(max(rejection.at.Add(webhookRejectedInterval).Sub(pass.now), webhookSettlingPause))
	}
	// Each look doubles the time that has gone by since the change, and so the time to the next one.
	if changed := k.definitions.lastChange(); !changed.IsZero() {
		if age := pass.now.Sub(changed); age < webhookDiscoverySettles {
			sooner(max(age, webhookSettlingPause))
		}
	}
	if pass.postponed > 0 {
		sooner(pass.postponed)
	} else if k.contest.contested() {
		sooner(max(k.contest.quiet(pass.now), webhookSettlingPause))
	}
	return after
}

// forgetRejections keeps those of the policies that are there.
func (k *webhookReconciler) forgetRejections(pass *webhookPass) {
	kept := map[types.UID]webhookRejection{}
	for _, p := range pass.policies {
		if rejection, ok := k.rejections[p.object.UID]; ok && rejection.generation == p.object.Generation {
			kept[p.object.UID] = rejection
		}
	}
	k.rejections = kept
}
