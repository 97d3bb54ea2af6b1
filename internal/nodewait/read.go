// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// requestTimeout bounds one read, so that a hung API server becomes an obstacle that is reported.
	requestTimeout = 10 * time.Second
	// pageSize is how many objects one request of a list asks for.
	pageSize = 500
)

var (
	nodes    = corev1.SchemeGroupVersion.WithResource("nodes")
	policies = v1alpha1.GroupVersion.WithResource("noderesourcepolicies")
)

// rule is a policy, or the command line in its place.
type rule struct {
	*nodepolicy.Compiled
	// key is the version of the rule.
	key string
	// origin is "NodeResourcePolicy NAME"; empty where the command line is the rule.
	origin string
}

// readRule reads the policy at each look: it may be corrected during the wait.
func (w *waiter) readRule(ctx context.Context) (rule, error) {
	if w.Policy == "" {
		return w.rule, nil
	}
	origin := "NodeResourcePolicy " + w.Policy
	u, found, err := w.get(ctx, clusterScoped(policies, w.Policy))
	if err != nil {
		return rule{}, err
	}
	if !found {
		return rule{}, &obstacle{"there is no " + origin, "Create it, or correct --policy."}
	}
	key := fmt.Sprintf("%s/%d", u.GetUID(), u.GetGeneration())
	if w.rule.Compiled != nil && w.rule.key == key {
		return w.rule, nil
	}
	policy := &v1alpha1.NodeResourcePolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, policy); err != nil {
		return rule{}, &obstacle{fmt.Sprintf("%s cannot be read: %s", origin, err), "Use the manager of the version that the policy is made for."}
	}
	compiled, err := nodepolicy.Compile(policy)
	if err != nil {
		return rule{}, &obstacle{fmt.Sprintf("%s cannot be used: %s", origin, err), "Correct the policy."}
	}
	w.rule = rule{Compiled: compiled, key: key, origin: origin}
	return w.rule, nil
}

// target is where the objects of the node are.
type target struct {
	served.Resource
	namespace string
	// name is the object's; empty where a field has the node's name.
	name string
	// selector limits lists and watches; empty where every object has to be looked at.
	selector string
}

// locate decides how the objects of the node are read.
func (w *waiter) locate(ctx context.Context, r rule) (target, error) {
	if w.found.Kind == "" || w.foundFor != r.key {
		bounded, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		found, err := w.discover(bounded, r.Resource(), r.Spec().Resource.Versions)
		if err != nil {
			return target{}, err
		}
		w.found, w.foundFor, w.unselectable = found, r.key, false
	}
	t := target{Resource: w.found, namespace: w.Namespace, name: w.Name}
	if !t.Namespaced && t.namespace != "" {
		return t, fmt.Errorf("--namespace is %s, but %s are cluster-scoped: leave it out", t.namespace, t.GroupResource())
	}
	if t.name == "" && r.NamedByMetadata() {
		t.name = w.Node
	}
	path := r.Spec().NodeName.FieldPath
	switch {
	case t.name != "":
		t.selector = fields.OneTermEqualSelector(metav1.ObjectNameField, t.name).String()
	case path != "" && !w.unselectable:
		t.selector = fields.OneTermEqualSelector(path, w.Node).String()
	}
	return t, nil
}

// discover finds the resource in the first of these versions that serves it.
func (w *waiter) discover(ctx context.Context, resource schema.GroupResource, versions []string) (served.Resource, error) {
	for found, err := range served.In(ctx, w.Discovery, resource, versions) {
		if err != nil {
			return served.Resource{}, unreadable("discovering "+resource.String(), err)
		}
		return found, nil
	}
	return served.Resource{}, notServed(resource, versions)
}

// single reports whether there is at most one object, that can be read by its name.
func (t target) single() bool { return t.name != "" && (!t.Namespaced || t.namespace != "") }

func clusterScoped(resource schema.GroupVersionResource, name string) target {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return target{Resource: served.Resource{GroupVersionResource: resource}, name: name, selector: selector}
}

// readObjects takes the selector from the target where the API server cannot select by it.
func (w *waiter) readObjects(ctx context.Context, t *target) ([]unstructured.Unstructured, error) {
	if !t.single() {
		return w.list(ctx, t)
	}
	u, found, err := w.get(ctx, *t)
	if err != nil || !found {
		return nil, err
	}
	return []unstructured.Unstructured{*u}, nil
}

func (w *waiter) list(ctx context.Context, t *target) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	options := metav1.ListOptions{FieldSelector: t.selector, Limit: pageSize}
	for {
		page, err := w.readPage(ctx, t, options)
		if apierrors.IsBadRequest(err) && t.name == "" && t.selector != "" { // "field label not supported"
			w.unselectable, t.selector = true, ""
			return w.list(ctx, t)
		}
		if err != nil {
			w.forget(err)
			return nil, t.failed("list", err)
		}
		for _, u := range page.Items {
			if t.name == "" || u.GetName() == t.name {
				objects = append(objects, u)
			}
		}
		w.version, options.Continue = page.GetResourceVersion(), page.GetContinue()
		if options.Continue == "" {
			return objects, nil
		}
	}
}

func (w *waiter) readPage(ctx context.Context, t *target, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return w.Client.Resource(t.GroupVersionResource).Namespace(t.namespace).List(ctx, options)
}

// forget has the next look discover the resource again if it is no longer served.
func (w *waiter) forget(err error) {
	if apierrors.IsNotFound(err) {
		w.found = served.Resource{}
	}
}

// readNode reads the Node; nil if there is none.
func (w *waiter) readNode(ctx context.Context) (*corev1.Node, error) {
	u, found, err := w.get(ctx, clusterScoped(nodes, w.Node))
	if err != nil || !found {
		return nil, err
	}
	node := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, node); err != nil {
		return nil, unreadable("reading Node "+w.Node, err)
	}
	return node, nil
}

// get reads one object live. The error is an obstacle.
func (w *waiter) get(ctx context.Context, t target) (_ *unstructured.Unstructured, found bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u, err := w.Client.Resource(t.GroupVersionResource).Namespace(t.namespace).Get(ctx, t.name, metav1.GetOptions{})
	switch {
	case served.IsAbsent(err):
		return nil, false, nil
	case err != nil:
		w.forget(err)
		return nil, false, t.failed("get", err)
	default:
		return u, true, nil
	}
}
