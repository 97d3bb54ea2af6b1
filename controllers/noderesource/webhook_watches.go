// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

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
		// Our own writes of the status change no generation; the mark of a deletion does.
		source.Kind(c, client.Object(&v1alpha1.NodeResourcePolicy{}), wake, predicate.GenerationChangedPredicate{}),
		source.Kind(c, client.Object(&admissionregistrationv1.ValidatingWebhookConfiguration{}), wake),
		source.Kind(c, client.Object(&admissionregistrationv1.MutatingWebhookConfiguration{}), wake),
		source.Kind(c, client.Object(definitionMetadata()), k.definitionHandler()),
	}
}

// webhookStart wakes the webhook controller once: the presets are applied also where no watch has anything to tell yet.
func webhookStart() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(webhookRequest)
		return nil
	})
}

// definitionHandler wakes the webhook controller only for definitions of a group that a policy names: each look asks for what is served.
// The time is noted of all of them, for the policy that comes next.
func (k *webhookReconciler) definitionHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(definition client.Object, q queue) {
		if k.definitions.note(definition.GetName(), k.options.Clock.Now()) {
			q.Add(webhookRequest)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { changed(e.Object, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			// A resync is no change; that a definition was established changes its status only.
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				changed(e.ObjectNew, q)
			}
		},
	}
}

// webhookDefinitions is what the webhook controller knows of changes of CustomResourceDefinitions.
type webhookDefinitions struct {
	mu sync.Mutex
	// groups are those of the policies that were seen last.
	groups sets.Set[string]
	// changed is when a definition of a group last came, changed or went.
	changed map[string]time.Time
}

// note remembers a change of the definition of that name, which is "plural.group", and says whether a policy is about its group.
func (d *webhookDefinitions) note(name string, now time.Time) bool {
	_, group, _ := strings.Cut(name, ".")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = map[string]time.Time{}
	}
	d.changed[group] = now
	return d.groups.Has(group)
}

// want takes the groups of the policies that are there. What is noted from then on wakes the webhook controller; what was noted before,
// lastChange tells.
func (d *webhookDefinitions) want(policies []v1alpha1.NodeResourcePolicy) {
	groups := sets.New[string]()
	for i := range policies {
		groups.Insert(policies[i].Spec.Resource.Group)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.groups = groups
}

// lastChange is when a definition of a policy's group last came, changed or went; zero for never.
func (d *webhookDefinitions) lastChange() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last time.Time
	for group := range d.groups {
		if at := d.changed[group]; at.After(last) {
			last = at
		}
	}
	return last
}
