// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// newReflector keeps one object up to date, by a list and a watch of its name, again after every failure.
func newReflector[T client.Object](c client.WithWatch, of T, newList func() client.ObjectList, into *watched[T], log logr.Logger) *cache.Reflector {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, into.name)
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
		cache.ReflectorOptions{Name: into.name, Logger: &log})
}

// follow watches the GuardedNode of a Node UID instead of the earlier one; none for an empty UID.
func (a *Agent) follow(ctx context.Context, uid types.UID) {
	if a.own.name == string(uid) {
		return
	}
	a.unfollow()
	a.own = watchedNode(uid, a.clock, a.poke)
	a.unfollow = func() {}
	if uid == "" {
		return
	}
	ctx, a.unfollow = context.WithCancel(ctx)
	reflector := newReflector(a.options.Client, &v1alpha1.GuardedNode{}, func() client.ObjectList { return &v1alpha1.GuardedNodeList{} }, a.own, a.log)
	a.running.Go(func() { reflector.RunWithContext(ctx) })
}
