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
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// requestTimeout bounds one read, so that an API server that hangs is told from one that is asked.
	requestTimeout = 10 * time.Second
	// pageSize is how many objects one request of a list asks for.
	pageSize = 500
)

var (
	nodes    = corev1.SchemeGroupVersion.WithResource("nodes")
	policies = v1alpha1.GroupVersion.WithResource("noderesourcepolicies")
)

// rule is what tells whether an object speaks for a node.
type rule struct {
	*nodepolicy.Compiled
	// key changes with what the rule says.
	key string
	// origin is "NodeResourcePolicy NAME"; empty where the command line is the rule.
	origin string
}

// readRule reads the policy. It is read again at each look, because a policy may be corrected while it is waited for.
func (w *waiter) readRule(ctx context.Context) (rule, error) {
	if w.Policy == "" {
		return w.rule, nil
	}
	origin := "NodeResourcePolicy " + w.Policy
	u, found, err := w.get(ctx, request{verb: "get", GroupVersionResource: policies, name: w.Policy})
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
	// name is the object's; empty where it is found by what it says.
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
		return t, &UsageError{fmt.Sprintf("--namespace is %s, but %s are cluster-scoped: leave it out", t.namespace, t.GroupResource())}
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

// single says whether there is at most one object, that can be read by its name.
func (t target) single() bool { return t.name != "" && (!t.Namespaced || t.namespace != "") }

func (t target) request(verb string) request {
	return request{verb: verb, GroupVersionResource: t.GroupVersionResource, namespaced: t.Namespaced, namespace: t.namespace, name: t.name}
}

// listing is the objects that may speak for the node.
type listing struct {
	objects []unstructured.Unstructured
	// version is where a watch goes on; empty for a single object.
	version string
}

// readObjects takes the selector from the target where the API server cannot select by it.
func (w *waiter) readObjects(ctx context.Context, t *target) (listing, error) {
	if !t.single() {
		return w.list(ctx, t)
	}
	u, found, err := w.get(ctx, t.request("get"))
	if err != nil || !found {
		return listing{}, err
	}
	return listing{objects: []unstructured.Unstructured{*u}}, nil
}

func (w *waiter) list(ctx context.Context, t *target) (listing, error) {
	var l listing
	options := metav1.ListOptions{FieldSelector: t.selector, Limit: pageSize}
	for {
		page, err := w.readPage(ctx, t, options)
		if apierrors.IsBadRequest(err) && t.name == "" && t.selector != "" { // "field label not supported"
			w.unselectable, t.selector = true, ""
			return w.list(ctx, t)
		}
		if err != nil {
			w.forget(err)
			return l, t.request("list").failed(err)
		}
		for _, u := range page.Items {
			if t.name == "" || u.GetName() == t.name {
				l.objects = append(l.objects, u)
			}
		}
		l.version, options.Continue = page.GetResourceVersion(), page.GetContinue()
		if options.Continue == "" {
			return l, nil
		}
	}
}

func (w *waiter) readPage(ctx context.Context, t *target, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return w.Client.Resource(t.GroupVersionResource).Namespace(t.namespace).List(ctx, options)
}

// forget makes the next look discover the resource again, when it was not served any more.
func (w *waiter) forget(err error) {
	if apierrors.IsNotFound(err) {
		w.found = served.Resource{}
	}
}

// node is what has to be known of the Node.
type node struct {
	uid        types.UID
	created    time.Time
	deleting   bool
	finalizers []string
	machineID  string
}

func (w *waiter) readNode(ctx context.Context) (release.Fact[node], error) {
	u, found, err := w.get(ctx, request{verb: "get", GroupVersionResource: nodes, name: w.Node})
	if err != nil {
		return release.Unknown[node](err.Error()), err
	}
	if !found {
		return release.Absent[node](), nil
	}
	machineID, _, _ := unstructured.NestedString(u.Object, "status", "nodeInfo", "machineID")
	return release.Known(node{
		uid:        u.GetUID(),
		created:    u.GetCreationTimestamp().Time,
		deleting:   u.GetDeletionTimestamp() != nil,
		finalizers: u.GetFinalizers(),
		machineID:  machineID,
	}), nil
}

// get reads one object from the API server. The error is an obstacle.
func (w *waiter) get(ctx context.Context, r request) (_ *unstructured.Unstructured, found bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u, err := w.Client.Resource(r.GroupVersionResource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case isAbsent(err):
		return nil, false, nil
	case err != nil:
		w.forget(err)
		return nil, false, r.failed(err)
	default:
		return u, true, nil
	}
}
