// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// webhookServesAll is an API server that serves the resource of the policies.
type webhookServesAll struct{}

func (webhookServesAll) Group(context.Context, string) (*metav1.APIGroup, error) {
	return &metav1.APIGroup{PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1"}}, nil
}

func (webhookServesAll) Resources(context.Context, schema.GroupVersion) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "gadgets", Kind: "Gadget"}, {Name: "gadgets/status", Kind: "Gadget"}}}, nil
}

// Only in a unit test can the caches be late to order.
func TestWhatALateCacheSaysChangesNothing(t *testing.T) {
	alpha, bravo := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail), webhookTestPolicy(t, "bravo", v1alpha1.PolicyFail)
	both := (&webhookPass{now: webhookNow, options: webhookOptions(), protection: []byte("CA"), policies: []*webhookPolicy{alpha, bravo}}).wanted()
	one := (&webhookPass{now: webhookNow, options: webhookOptions(), protection: []byte("CA"), policies: []*webhookPolicy{alpha}}).wanted()
	empty := (&webhookPass{now: webhookNow, options: webhookOptions(), policies: []*webhookPolicy{alpha, bravo}}).wanted()
	for name, cached := range map[string][]client.Object{
		"it knows no policy":                     {both},
		"it knows one policy of two":             {both, alpha.object},
		"it knows no configuration":              {alpha.object, bravo.object},
		"it knows an older configuration":        {one, alpha.object, bravo.object},
		"it knows a configuration with no trust": {empty, alpha.object, bravo.object},
		"it knows nothing":                       nil,
	} {
		t.Run(name, func(t *testing.T) {
			k, written := webhookWithCache(t, cached, []client.Object{both, alpha.object, bravo.object})
			if _, err := k.Reconcile(t.Context(), webhookRequest); err != nil {
				t.Fatal(err)
			}
			writes := slices.DeleteFunc(*written, func(line string) bool { return strings.HasPrefix(line, "status of ") })
			if len(writes) != 0 {
				t.Errorf("the configuration was written: %s", writes)
			}
		})
	}
}

func TestAStatusIsWrittenToThePolicyThatWasJudged(t *testing.T) {
	alpha := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)
	k, written := webhookWithCache(t, []client.Object{alpha.object}, []client.Object{alpha.object})
	if _, err := k.Reconcile(t.Context(), webhookRequest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apply", "status of alpha, UID alpha-uid"}, *written); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAGuardThatIsOffTakesItsWebhooksAwayAndSaysSo(t *testing.T) {
	alpha := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)
	stored := (&webhookPass{now: webhookNow, options: webhookOptions(), protection: []byte("CA"), policies: []*webhookPolicy{alpha}}).wanted()
	k, written := webhookWithCache(t, []client.Object{stored, alpha.object}, []client.Object{stored, alpha.object})
	k.options.Disabled = true
	if _, err := k.Reconcile(t.Context(), webhookRequest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete", "status of alpha, UID alpha-uid", "status of alpha, UID alpha-uid"}, *written); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	told := alpha.object.DeepCopy()
	told.Status.Conditions, _ = (&webhookPass{now: webhookNow, options: k.options, policies: []*webhookPolicy{alpha}}).conditions(alpha)
	// A sweeper that ended later may have had the last word about itself.
	k, written = webhookWithCache(t, []client.Object{told}, []client.Object{told})
	k.options.Disabled = true
	if _, err := k.Reconcile(t.Context(), webhookRequest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"status of alpha, UID alpha-uid"}, *written); diff != "" {
		t.Errorf("writes where only Swept is missing (-want +got):\n%s", diff)
	}
	s := &sweeper{clock: k.options.Clock}
	told.Status.Conditions = append(told.Status.Conditions, s.sweptCondition(told, metav1.ConditionFalse, v1alpha1.ReasonGuardDisabled, webhookDisabled))
	k, written = webhookWithCache(t, []client.Object{told}, []client.Object{told})
	k.options.Disabled = true
	if _, err := k.Reconcile(t.Context(), webhookRequest); err != nil || len(*written) != 0 {
		t.Errorf("it was said, and yet: %v, %s", err, *written)
	}
}

func TestTheWebhookControllerWatchesWhatItReads(t *testing.T) {
	var watched []string
	for _, source := range (&webhookReconciler{}).sources(nil) {
		watched = append(watched, fmt.Sprint(source))
	}
	want := []string{
		"kind source: *v1alpha1.NodeResourcePolicy",
		"kind source: *v1.ValidatingWebhookConfiguration",
		"kind source: *v1.MutatingWebhookConfiguration",
		"kind source: *v1.PartialObjectMetadata[apiextensions.k8s.io/v1 CustomResourceDefinition]",
	}
	if diff := cmp.Diff(want, watched); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// webhookQueue counts what is added to it.
type webhookQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added int
}

func (q *webhookQueue) Add(reconcile.Request) { q.added++ }

func TestAChangeOfADefinitionWakesTheWebhookController(t *testing.T) {
	named := func(name, version string) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	definition := func(version string) client.Object { return named("gadgets.machines.example.com", version) }
	for name, test := range map[string]struct {
		happens func(handler.EventHandler, *webhookQueue)
		wakes   bool
	}{
		"it comes": {func(h handler.EventHandler, q *webhookQueue) {
			h.Create(t.Context(), event.CreateEvent{Object: definition("1")}, q)
		}, true},
		"it goes": {func(h handler.EventHandler, q *webhookQueue) {
			h.Delete(t.Context(), event.DeleteEvent{Object: definition("1")}, q)
		}, true},
		"its status says that it is served": {func(h handler.EventHandler, q *webhookQueue) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: definition("1"), ObjectNew: definition("2")}, q)
		}, true},
		"it is of the group of a policy, and of another resource": {func(h handler.EventHandler, q *webhookQueue) {
			h.Create(t.Context(), event.CreateEvent{Object: named("others.machines.example.com", "1")}, q)
		}, true},
		"it is of another group": {func(h handler.EventHandler, q *webhookQueue) {
			h.Create(t.Context(), event.CreateEvent{Object: named("gadgets.example.com", "1")}, q)
		}, false},
		"it is only listed again": {func(h handler.EventHandler, q *webhookQueue) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: definition("1"), ObjectNew: definition("1")}, q)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			k, q := &webhookReconciler{options: Options{Clock: clocktesting.NewFakePassiveClock(webhookNow)}}, &webhookQueue{}
			k.definitions.want([]v1alpha1.NodeResourcePolicy{*webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail).object})
			test.happens(k.definitionHandler(), q)
			if noted := k.definitions.lastChange().Equal(webhookNow); (q.added == 1) != test.wakes || noted != test.wakes {
				t.Errorf("added %d requests, noted the time %t, expected %t", q.added, noted, test.wakes)
			}
		})
	}
}

// A definition that comes between the look at the policies and a new policy of its group must not be missed: discovery may
// still say what was before.
func TestAPolicyThatComesLaterKnowsOfTheChange(t *testing.T) {
	k, q := &webhookReconciler{options: Options{Clock: clocktesting.NewFakePassiveClock(webhookNow)}}, &webhookQueue{}
	k.definitions.want(nil)
	k.definitionHandler().Create(t.Context(), event.CreateEvent{Object: &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.machines.example.com"}}}, q)
	if q.added != 0 || !k.definitions.lastChange().IsZero() {
		t.Errorf("without a policy: %d requests, changed at %s", q.added, k.definitions.lastChange())
	}
	k.definitions.want([]v1alpha1.NodeResourcePolicy{*webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail).object})
	if got := k.definitions.lastChange(); !got.Equal(webhookNow) {
		t.Errorf("changed at %s, expected %s", got, webhookNow)
	}
}

func TestOfADefinitionOnlyThatItIsThereIsCached(t *testing.T) {
	given := definitionMetadata()
	given.Name, given.UID, given.ResourceVersion, given.Generation = "gadgets.machines.example.com", "x", "7", 2
	given.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "long"}
	given.Labels, given.ManagedFields = map[string]string{"a": "b"}, []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	want := definitionMetadata()
	want.Name, want.UID, want.ResourceVersion, want.Generation = "gadgets.machines.example.com", "x", "7", 2
	for object, options := range CacheByObject() {
		if _, ok := object.(*metav1.PartialObjectMetadata); !ok {
			continue
		}
		got, err := options.Transform(given)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		return
	}
	t.Error("definitions have no transform")
}

// webhookWithCache is a webhook controller whose cache has other objects than the API server, and the writes that it tries.
func webhookWithCache(t *testing.T, cached, live []client.Object) (*webhookReconciler, *[]string) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	with := func(objects []client.Object) *fake.ClientBuilder {
		builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeResourcePolicy{})
		for _, object := range objects {
			builder.WithObjects(object.DeepCopyObject().(client.Object))
		}
		return builder
	}
	written := new([]string)
	say := func(verb string) error { *written = append(*written, verb); return nil }
	writer := with(cached).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return say("update")
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return say("delete")
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return say("apply")
		},
		SubResourceApply: func(_ context.Context, _ client.Client, subresource string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			object := o.(metav1.Object)
			return say(fmt.Sprintf("%s of %s, UID %s", subresource, object.GetName(), object.GetUID()))
		},
	}).Build()
	options := webhookOptions()
	options.Clock = clocktesting.NewFakePassiveClock(webhookNow)
	return &webhookReconciler{client: writer, live: with(live).Build(), api: webhookServesAll{}, recorder: events.NewFakeRecorder(10),
		options: options, rejections: map[types.UID]webhookRejection{}}, written
}
