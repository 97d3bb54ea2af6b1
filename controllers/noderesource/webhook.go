// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// WebhooksFieldManager is the field manager of what the webhook controller writes: the webhook configuration, and the conditions Accepted
// and Enforced of the policies.
const WebhooksFieldManager = "holdfast-webhooks"

const (
	// webhookDiscoveryDelay is how long discovery may be behind a change of a CustomResourceDefinition.
	webhookDiscoveryDelay = time.Minute
	// webhookShortestPause is the shortest time until the next look.
	webhookShortestPause = time.Second
	// webhookUnservedInterval is how often a resource that is not served is looked for: an aggregated API has no definition to watch.
	webhookUnservedInterval = 5 * time.Minute
	// webhookFirstRetry and webhookLastRetry bound the time to the next try after a failure.
	webhookFirstRetry, webhookLastRetry = 50 * time.Millisecond, time.Minute
	// webhookRejectedInterval is how often an entry that the API server refused is tried again: a newer server may accept it.
	webhookRejectedInterval = 10 * time.Minute
	// webhookFreeRestorations edits in a row are undone at once, each further one after webhookRestoreInterval.
	webhookFreeRestorations = 3
	webhookRestoreInterval  = 10 * time.Second
	// webhookContestQuiet is how long a restored webhook must stay unedited until it counts as enforced again.
	webhookContestQuiet = 2 * time.Minute
)

// webhookReconciler generates the webhook configuration of the NodeResourcePolicies, restores it, and reports of each policy whether it is
// accepted and enforced. There is one request, the configuration, and one reconciliation at a time.
type webhookReconciler struct {
	client   client.Client // cached reads; writes
	live     client.Reader
	api      served.API
	recorder events.EventRecorder
	options  Options

	// definitionChanged is when a CustomResourceDefinition last changed; nil for never.
	definitionChanged atomic.Pointer[time.Time]
	// presetsApplied are the names of the presets that this process has applied.
	presetsApplied sets.Set[string]
	// lastWanted is what was wanted at the last look; nil before the first, or if there was to be none.
	lastWanted *admissionregistrationv1.ValidatingWebhookConfiguration
	// rejections are the entries that the API server refused, by the policy's UID.
	rejections map[types.UID]webhookRejection

	// restorations limits how often other clients' edits are undone, and restored is when one last was.
	restorations flowcontrol.PassiveRateLimiter
	restored     time.Time
	// accepted: the limit allows a restoration that has not been written yet.
	accepted bool
	// contested is who changes what, by the UID of each policy of which an edit had to wait.
	contested map[types.UID]string
}

// webhookRejection is the API server's response to the entry of one generation of a policy.
type webhookRejection struct {
	generation int64
	message    string
	at         time.Time
}

func setupWebhooks(mgr manager.Manager, api served.API, o Options) error {
	k := newWebhookReconciler(mgr.GetClient(), mgr.GetAPIReader(), api, mgr.GetEventRecorder("holdfast"), o)
	return queue.Control(mgr, "node-resource-webhooks", controller.Options{Reconciler: k, MaxConcurrentReconciles: 1,
		RateLimiter: retries[reconcile.Request](o, webhookFirstRetry, webhookLastRetry)}, append(k.sources(mgr.GetCache()), webhookStart())...)
}

func newWebhookReconciler(c client.Client, live client.Reader, api served.API, recorder events.EventRecorder, o Options) *webhookReconciler {
	return &webhookReconciler{
		client: c, live: live, api: api, recorder: recorder, options: o,
		presetsApplied: sets.New[string](),
		rejections:     map[types.UID]webhookRejection{},
		restorations:   newRestorationLimit(o.Clock),
		contested:      map[types.UID]string{},
	}
}

func newRestorationLimit(c clock.PassiveClock) flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(time.Second)/float32(webhookRestoreInterval), webhookFreeRestorations, c)
}

// webhookRequest is the only one: there is one configuration.
var webhookRequest = reconcile.Request{NamespacedName: client.ObjectKey{Name: ConfigurationName}}

// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=holdfast-node-resources,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=holdfast-protect,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// sources are what a reconciliation depends on.
func (k *webhookReconciler) sources(c cache.Cache) []source.Source {
	wake := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{webhookRequest}
	})
	return []source.Source{
		// Our own writes of the status change no generation; a deletion timestamp does.
		source.Kind(c, client.Object(&v1alpha1.NodeResourcePolicy{}), wake, predicate.GenerationChangedPredicate{}),
		source.Kind(c, client.Object(&admissionregistrationv1.ValidatingWebhookConfiguration{}), wake),
		source.Kind(c, client.Object(&admissionregistrationv1.MutatingWebhookConfiguration{}), wake),
		// The change that establishes a definition is one of its status.
		source.Kind(c, client.Object(definitionMetadata()), wake, predicate.ResourceVersionChangedPredicate{}, k.noteDefinition()),
	}
}

// webhookStart requests the first reconciliation, which applies the presets also where there is nothing to watch yet.
func webhookStart() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(webhookRequest)
		return nil
	})
}

// noteDefinition notes when definitions change, and lets every event pass.
func (k *webhookReconciler) noteDefinition() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(client.Object) bool {
		k.definitionChanged.Store(new(k.options.Clock.Now()))
		return true
	})
}

// Reconcile compares what is with what has to be. The caches may only cause a second look, at the API server itself: a late cache never
// drops an entry, and never chooses an authority.
func (k *webhookReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := k.options.Clock.Now()
	if now.Sub(k.restored) >= webhookContestQuiet {
		clear(k.contested)
	}
	presets := k.applyPresets(ctx) // a refused preset disables no policy
	discovered := webhookServedMemo{}
	pass, err := k.look(ctx, k.client, discovered, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !pass.isSynced() {
		if pass, err = k.look(ctx, k.live, discovered, now); err != nil {
			return reconcile.Result{}, err
		}
		if err := k.write(ctx, pass); err != nil {
			return reconcile.Result{}, err
		}
	}
	k.lastWanted = pass.wanted()
	k.forgetRejections(pass)
	pass.report()
	if err := errors.Join(append(pass.unknown(), presets)...); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: k.lookAgain(pass)}, nil
}

// lookAgain is when to look again without an event; zero for never.
func (k *webhookReconciler) lookAgain(pass *webhookPass) time.Duration {
	if len(pass.policies) == 0 {
		return 0
	}
	var after time.Duration
	sooner := func(d time.Duration) {
		if d = max(d, webhookShortestPause); after == 0 || d < after {
			after = d
		}
	}
	if pass.unserved() {
		sooner(webhookUnservedInterval)
	}
	for _, rejection := range k.rejections {
		sooner(rejection.at.Add(webhookRejectedInterval).Sub(pass.now))
	}
	// Each look doubles the time since the change, and so the time to the next one.
	if changed := k.definitionChanged.Load(); changed != nil && pass.now.Sub(*changed) < webhookDiscoveryDelay {
		sooner(pass.now.Sub(*changed))
	}
	if pass.postponed {
		sooner(webhookRestoreInterval)
	} else if len(k.contested) > 0 {
		sooner(k.restored.Add(webhookContestQuiet).Sub(pass.now))
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
