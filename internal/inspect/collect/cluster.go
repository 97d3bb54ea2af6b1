// SPDX-License-Identifier: Apache-2.0

// Package collect reads from a cluster the facts of the reports in internal/inspect. Every read goes to the API server, long lists in
// pages, with progress. A read that is not permitted is an error that names the missing right.
package collect

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/auditlog"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// Cluster reads one cluster. Make it with New.
type Cluster struct {
	// Client is uncached.
	Client client.Client
	// Config is the way to the API server.
	Config *rest.Config
	// Namespace is the manager's.
	Namespace string
	// Progress gets the progress of a longer read: "listing pods: 1500".
	Progress  func(format string, args ...any)
	pools     IPAM
	discovery *discovery.DiscoveryClient
}

// IPAM is the way to the pools of the cluster.
type IPAM struct {
	// AddToScheme adds the types of its objects.
	AddToScheme func(*runtime.Scheme) error
	// Open reads every pool into a backend that has no manager; visit gets how many were read. Where the API server does not serve pools the
	// error is meta.IsNoMatchError, and the backend has none.
	Open func(ctx context.Context, c client.Client, visit func(pools int)) (ipam.Auditable, error)
}

// Scheme has every type that is read.
func Scheme(of IPAM) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, of.AddToScheme, nadv1.AddToScheme, certmanagerv1.AddToScheme, apiextensionsv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// New makes a Cluster. The configuration is copied; its rate limits are lifted to what suits paged lists.
func New(config *rest.Config, namespace string, of IPAM, progress func(string, ...any)) (*Cluster, error) {
	limited := rest.AddUserAgent(rest.CopyConfig(config), "kubectl-holdfast")
	limited.QPS, limited.Burst = 50, 100
	c, err := client.New(limited, client.Options{Scheme: Scheme(of)})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(limited)
	if err != nil {
		return nil, fmt.Errorf("making a client for the discovery of %s: %w", config.Host, err)
	}
	if progress == nil {
		progress = func(string, ...any) {}
	}
	return &Cluster{Client: c, Config: limited, Namespace: namespace, Progress: progress, pools: of, discovery: finder}, nil
}

// readError makes a Forbidden an error that names the right; what is a plural for other errors.
func readError(err error, verb, resource, scope string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return &inspect.ForbiddenError{Verb: verb, Resource: resource, Scope: scope, Err: err}
	}
	return fmt.Errorf("could not %s %s in %s: %w", verb, resource, scope, err)
}

const (
	everywhere = "all namespaces"
	cluster    = "the cluster"
)

func inNamespace(name string) string { return "namespace " + name }

// orAbsent is release.FactOf for an object that may not exist.
func orAbsent[T any](object *T, err error) release.Fact[*T] {
	if object == nil && err == nil {
		return release.Absent[*T]()
	}
	return release.FactOf(object, err)
}

// each visits every page of a list.
func each[L any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, c *Cluster, resource string, visit func(P), options ...client.ListOption) error {
	return walk(ctx, c, resource, pages.Of[L, P](ctx, c.Client, options...), visit)
}

// walk visits pages, and reports its progress.
func walk[P client.ObjectList](ctx context.Context, c *Cluster, resource string, all iter.Seq2[P, error], visit func(P)) error {
	read := 0
	for list, err := range all {
		if meta.IsNoMatchError(err) {
			return c.unserved(ctx, resource, c.versionOf(list), err)
		}
		if err != nil {
			return readError(err, "list", resource, everywhere)
		}
		visit(list)
		read += meta.LenList(list)
		c.Progress("listing %s: %d", resource, read)
	}
	return nil
}

// Records lists every IPAllocation that the options select. Where the type is not served there are none, and a NotServedError.
func (c *Cluster) Records(ctx context.Context, options ...client.ListOption) ([]v1alpha1.IPAllocation, error) {
	var records []v1alpha1.IPAllocation
	err := each(ctx, c, inspect.RecordResource, func(list *v1alpha1.IPAllocationList) { records = append(records, list.Items...) }, options...)
	return records, err
}

// GuardedNodes lists every GuardedNode. Where the type is not served there are none.
func (c *Cluster) GuardedNodes(ctx context.Context) ([]v1alpha1.GuardedNode, error) {
	var guarded []v1alpha1.GuardedNode
	err := each(ctx, c, inspect.GuardedNodeResource, func(list *v1alpha1.GuardedNodeList) { guarded = append(guarded, list.Items...) })
	return guarded, orUnserved(err, new(bool))
}

// Pods lists every pod that the options select. keep takes what is needed of each: a cluster's pods in full may not fit.
func (c *Cluster) Pods(ctx context.Context, keep func(*corev1.Pod), options ...client.ListOption) error {
	return each(ctx, c, "pods", func(list *corev1.PodList) {
		for i := range list.Items {
			keep(&list.Items[i])
		}
	}, options...)
}

// Nodes lists every Node.
func (c *Cluster) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var nodes []corev1.Node
	err := each(ctx, c, "nodes", func(list *corev1.NodeList) { nodes = append(nodes, list.Items...) })
	return nodes, err
}

// Pools reads all pools into a backend that has no manager. Where the type is not served it has none, and served is false.
func (c *Cluster) Pools(ctx context.Context) (backend ipam.Auditable, served bool, err error) {
	backend, err = c.pools.Open(ctx, c.Client, func(read int) { c.Progress("listing ippools: %d", read) })
	if meta.IsNoMatchError(err) {
		err = c.unserved(ctx, inspect.PoolResource, ippools.Version, err)
	}
	switch {
	case isNotServed(err):
		return backend, false, nil
	case apierrors.IsForbidden(err):
		return nil, false, &inspect.ForbiddenError{Verb: "list", Resource: inspect.PoolResource, Scope: everywhere, Err: err}
	}
	return backend, true, err
}

// Events lists the events that the options select.
func (c *Cluster) Events(ctx context.Context, options ...client.ListOption) ([]inspect.Event, error) {
	var events []inspect.Event
	err := each(ctx, c, "events", func(list *corev1.EventList) {
		for i := range list.Items {
			events = append(events, eventOf(&list.Items[i]))
		}
	}, options...)
	return events, err
}

// OurEvents lists every event of Holdfast's components in all namespaces.
func (c *Cluster) OurEvents(ctx context.Context) ([]inspect.Event, error) {
	var events []inspect.Event
	for _, reporter := range []string{"holdfast", "holdfast-agent", auditlog.Reporter} {
		some, err := c.Events(ctx, client.MatchingFields{"reportingComponent": reporter})
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
	}
	return events, nil
}

func eventOf(e *corev1.Event) inspect.Event {
	event := inspect.Event{First: e.FirstTimestamp.Time, Last: e.LastTimestamp.Time, Count: max(e.Count, 1), Type: e.Type, Reason: e.Reason, Note: e.Message,
		Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name, UID: e.InvolvedObject.UID,
		Reporter: e.ReportingController}
	if series := e.Series; series != nil {
		event.Last, event.Count = series.LastObservedTime.Time, max(series.Count, 1)
	}
	event.First = cmp.Or(event.First, e.EventTime.Time, e.CreationTimestamp.Time)
	event.Last = cmp.Or(event.Last, event.First)
	return event
}

// read reads one object; nil if there is none.
func read[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c *Cluster, key client.ObjectKey, resource string) (*T, error) {
	object := new(T)
	found, err := c.get(ctx, key, P(object), resource)
	if err != nil || !found {
		return nil, err
	}
	return object, nil
}

// get reads one object; found is false where there is none.
func (c *Cluster) get(ctx context.Context, key client.ObjectKey, object client.Object, resource string) (found bool, err error) {
	err = c.Client.Get(ctx, key, object)
	if meta.IsNoMatchError(err) {
		return false, c.unserved(ctx, resource, c.versionOf(object), err)
	}
	if served.IsAbsent(err) {
		return false, nil
	}
	scope := cluster
	if key.Namespace != "" {
		scope = inNamespace(key.Namespace)
	}
	return err == nil, readError(err, "get", resource, scope)
}
