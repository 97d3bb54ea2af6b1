// SPDX-License-Identifier: Apache-2.0

// Package nodepolicy runs the two controllers of NodeResourcePolicies under the identity of the installation: the webhook controller, which turns policies
// into webhooks, and the sweeper, which looks for objects of Nodes that are gone.
package nodepolicy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	managerNamespace, managerAccount = "holdfast-system", "holdfast-manager"
	// guardedGroup is the group of the suite's own resources.
	guardedGroup = "machines.example.com"
	// often is a sweep interval that a spec can wait for.
	often         = 200 * time.Millisecond
	nodeGoneDelay = 5 * time.Minute
)

var admin = fixture.Admin

var suite = fixture.NewSuite("nodepolicy", fixture.PlaneTwo, func(ctx context.Context) {
	fixture.CreateNamespace(ctx, managerNamespace)
	fixture.Apply(ctx, fixture.Folder("config/rbac").Objects())
	define(ctx, "gadgets", "v1", "v1beta1")
	define(ctx, "plains", "v1")
	fixture.KeepFromCollector(ctx, nil, nodecrds.NodeNetworkConfigs, nodecrds.CNINodes)
	grant(ctx, nodecrds.NodeNetworkConfigs, "get", "list", "delete")
})

// Every spec begins and ends with no policy, no configuration, no swept object and no Node.
var _ = suite.Add(func() {
	AfterEach(func(ctx context.Context) {
		present.stop()
		Expect(admin.DeleteAllOf(ctx, &v1alpha1.NodeResourcePolicy{})).To(Succeed())
		for _, object := range []client.Object{
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: noderesource.ConfigurationName}},
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: noderesource.ProtectionConfigurationName}},
		} {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
		}
		for _, sample := range []*unstructured.Unstructured{nodecrds.NodeNetworkConfig("", ""), nodecrds.CNINode("", "")} {
			var list unstructured.UnstructuredList
			list.SetGroupVersionKind(sample.GroupVersionKind())
			Expect(admin.List(ctx, &list)).To(Succeed())
			for i := range list.Items {
				release(ctx, &list.Items[i])
				Expect(client.IgnoreNotFound(admin.Delete(ctx, &list.Items[i]))).To(Succeed())
			}
		}
		Expect(admin.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
	})
})

// define defines a cluster-scoped resource; the first version is stored and has a status.
func define(ctx context.Context, plural string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	singular := strings.TrimSuffix(plural, "s")
	object := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + guardedGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: guardedGroup, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: singular, Kind: strings.ToUpper(singular[:1]) + singular[1:]},
		},
	}
	for i, version := range versions {
		defined := apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}}
		if i == 0 {
			defined.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		}
		object.Spec.Versions = append(object.Spec.Versions, defined)
	}
	Expect(admin.Create(ctx, object)).To(Succeed())
	return object
}

// replica is a manager with the controllers of node-scoped resources alone.
type replica struct {
	clock     *clocktesting.FakePassiveClock
	intercept atomic.Pointer[interceptor]
	stop      func()
}

// interceptor may serve a request of the manager in the API server's place; nil passes the request on.
type interceptor func(*http.Request) *http.Response

// when sets what may respond in the API server's place.
func (r *replica) when(intercept interceptor) { r.intercept.Store(&intercept) }

// pass lets a time pass for the manager.
func (r *replica) pass(d time.Duration) { r.clock.SetTime(r.clock.Now().Add(d)) }

func passes(*http.Request) *http.Response { return nil }

// startSweeper starts one whose clock is the spec's.
func startSweeper(ctx context.Context, intercept interceptor, change ...func(*noderesource.Options)) *replica {
	GinkgoHelper()
	clock := clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second)) // as the API server keeps it
	r := startManager(ctx, intercept, append(change, func(o *noderesource.Options) { o.Clock = clock })...)
	r.clock = clock
	return r
}

// startManager starts one behind a Service, with cert-manager, as in the installation. Its sweeps are caused by events, unless a change says often.
func startManager(ctx context.Context, intercept interceptor, change ...func(*noderesource.Options)) *replica {
	GinkgoHelper()
	r := &replica{}
	r.when(intercept)
	identity := fixture.AccountConfig(ctx, managerNamespace, managerAccount, nil)
	identity.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return fixture.RoundTripper(func(request *http.Request) (*http.Response, error) {
			if response := (*r.intercept.Load())(request); response != nil {
				return response, nil
			}
			return next.RoundTrip(request)
		})
	})
	options := noderesource.Options{
		Target: nodepolicy.Target{Service: &admissionregistrationv1.ServiceReference{
			Namespace: managerNamespace, Name: "holdfast-webhook", Port: new(int32(443))}},
		Certificate:   types.NamespacedName{Namespace: managerNamespace, Name: "holdfast-webhook"},
		SweepInterval: time.Hour, DeletesPerSecond: 10, NodeGoneDelay: nodeGoneDelay,
	}
	for _, c := range change {
		c(&options)
	}
	r.stop = fixture.RunManager(ctx, func(running context.Context) (manager.Manager, error) {
		mgr, err := manager.New(identity, manager.Options{
			Scheme: fixture.Scheme, Logger: GinkgoLogr,
			Cache:   cache.Options{ByObject: noderesource.CacheByObject(), DefaultTransform: cache.TransformStripManagedFields()},
			Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
			Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			return nil, err
		}
		return mgr, noderesource.Setup(running, mgr, options)
	})
	present = r
	return r
}

// present is the manager that a spec started last. It ends before the objects of the spec are deleted.
var present = &replica{stop: func() {}}

func sweepsOften(o *noderesource.Options) { o.SweepInterval = often }

// policy is that of a resource; the changes say what else.
func policy(ctx context.Context, name, group, resource string, changes ...func(*v1alpha1.NodeResourcePolicySpec)) *v1alpha1.NodeResourcePolicy {
	GinkgoHelper()
	p := &v1alpha1.NodeResourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NodeResourcePolicySpec{Resource: v1alpha1.GuardedResource{Group: group, Resource: resource}},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	Expect(admin.Create(ctx, p)).To(Succeed())
	return p
}

// changePolicy changes a specification, which others may write the status of meanwhile.
func changePolicy(ctx context.Context, name string, change func(*v1alpha1.NodeResourcePolicySpec)) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		p := livePolicy(ctx, name)
		change(&p.Spec)
		return admin.Update(ctx, p)
	}).Should(Succeed())
}

func failing(s *v1alpha1.NodeResourcePolicySpec) { s.FailurePolicy = v1alpha1.PolicyFail }

func livePolicy(ctx context.Context, name string) *v1alpha1.NodeResourcePolicy {
	GinkgoHelper()
	p := &v1alpha1.NodeResourcePolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
	return p
}

// condition is that of a policy, as a controller saw its present generation; empty if it has not seen it yet.
func condition(ctx context.Context, name, kind string) metav1.Condition {
	GinkgoHelper()
	p := livePolicy(ctx, name)
	if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.ObservedGeneration == p.Generation {
		return *c
	}
	return metav1.Condition{}
}

// expectCondition waits until a condition has this reason, and gives back its message.
func expectCondition(ctx context.Context, name, kind string, reason v1alpha1.Reason) string {
	GinkgoHelper()
	Eventually(ctx, func() v1alpha1.Reason { return v1alpha1.Reason(condition(ctx, name, kind).Reason) }).Should(Equal(reason), "%s of %s", kind, name)
	return condition(ctx, name, kind).Message
}

// expectEnforced waits until a policy is accepted and its webhook configured.
func expectEnforced(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		expectCondition(ctx, name, v1alpha1.PolicyAccepted, v1alpha1.ReasonPolicyAccepted)
		expectCondition(ctx, name, v1alpha1.PolicyEnforced, v1alpha1.ReasonWebhookConfigured)
	}
}

// notes are the notes of the events of a reason about an object; how often an event was repeated does not count.
func notes(ctx context.Context, about client.Object, reason v1alpha1.Reason) func() []string {
	return func() []string {
		var events eventsv1.EventList
		Expect(admin.List(ctx, &events)).To(Succeed())
		var found []string
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.UID == about.GetUID() && e.Reason == string(reason) && !slices.Contains(found, e.Note) {
				found = append(found, e.Note)
			}
		}
		return found
	}
}

// metric is the sum of the series that have all of these values of labels.
func metric(name string, values ...string) float64 {
	GinkgoHelper()
	return series.Sum(GinkgoTB(), name, values...)
}
