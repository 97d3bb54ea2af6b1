// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// nodeNameField selects records by their node on the server; the empty name selects those of unknown node.
const nodeNameField = "spec.nodeName"

// newReflector keeps a view true: one list, then a watch, again after every failure.
func newReflector(c client.WithWatch, nodeName string, into *view, log logr.Logger) (*cache.Reflector, error) {
	selector, err := fields.ParseSelector(fields.OneTermEqualSelector(nodeNameField, nodeName).String())
	if err != nil {
		return nil, fmt.Errorf("selecting by %s: %w", nodeNameField, err)
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			var list v1alpha1.IPAllocationList
			return &list, c.List(ctx, &list, &client.ListOptions{FieldSelector: selector, Raw: &o})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &v1alpha1.IPAllocationList{}, &client.ListOptions{FieldSelector: selector, Raw: &o})
		},
	}
	name := "IPAllocations of node " + nodeName
	if nodeName == "" {
		name = "IPAllocations of unknown node"
	}
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, c), &v1alpha1.IPAllocation{}, into,
		cache.ReflectorOptions{Name: name, Logger: &log}), nil
}
