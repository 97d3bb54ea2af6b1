// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// keeperRequest is the only one: there is one configuration.
var keeperRequest = reconcile.Request{NamespacedName: client.ObjectKey{Name: ConfigurationName}}

// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=holdfast-node-resources,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=holdfast-stamp,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// sources are what a reconciliation depends on.
func (k *keeper) sources(c cache.Cache) []source.Source {
	definitions := &metav1.PartialObjectMetadata{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	wake := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{keeperRequest}
	})
	return []source.Source{
		// Our own writes of the status change no generation; the mark of a deletion does.
		source.Kind(c, client.Object(&v1alpha1.NodeResourcePolicy{}), wake, predicate.GenerationChangedPredicate{}),
		source.Kind(c, client.Object(&admissionregistrationv1.ValidatingWebhookConfiguration{}), wake),
		source.Kind(c, client.Object(&admissionregistrationv1.MutatingWebhookConfiguration{}), wake),
		source.Kind(c, client.Object(definitions), k.definitionHandler()),
	}
}

// definitionHandler also notes the time: discovery follows a definition only after a while.
func (k *keeper) definitionHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(q queue) {
		k.definitionsChanged.Store(k.options.Clock.Now().UnixNano())
		q.Add(keeperRequest)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { changed(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { changed(q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			// A resync is no change; that a definition was established changes its status only.
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				changed(q)
			}
		},
	}
}
