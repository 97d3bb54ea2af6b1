// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// watchRecords keeps the records of the node true: one list, then a watch, again after every failure.
func watchRecords(c client.WithWatch, nodeName string, into cache.ReflectorStore, log logr.Logger) *cache.Reflector {
	return newReflector(c, "spec.nodeName", nodeName, func() client.ObjectList { return &v1alpha1.IPAllocationList{} }, &v1alpha1.IPAllocation{}, into, log)
}

// watchQueries keeps the AllNodesQuery true. A watch by name costs the API server nothing for other objects.
func watchQueries(c client.WithWatch, into cache.ReflectorStore, log logr.Logger) *cache.Reflector {
	return newReflector(c, metav1.ObjectNameField, v1alpha1.AllNodesQueryName, func() client.ObjectList { return &v1alpha1.AllNodesQueryList{} },
		&v1alpha1.AllNodesQuery{}, into, log)
}

func newReflector(c client.WithWatch, field, value string, newList func() client.ObjectList, of client.Object, into cache.ReflectorStore, log logr.Logger) *cache.Reflector {
	selector := fields.OneTermEqualSelector(field, value)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := newList()
			return list, c.List(ctx, list, &client.ListOptions{FieldSelector: selector, Raw: &o})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, newList(), &client.ListOptions{FieldSelector: selector, Raw: &o})
		},
	}
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, c), of, into,
		cache.ReflectorOptions{Name: field + " " + value, Logger: &log})
}
