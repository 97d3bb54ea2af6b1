// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

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
func TestALateCacheChangesNothing(t *testing.T) {
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

func TestAPresetThatIsRefusedDisablesNothingElse(t *testing.T) {
	alpha := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)
	k, written := webhookWithCache(t, []client.Object{alpha.object}, []client.Object{alpha.object})
	k.client = interceptor.NewClient(k.client.(client.WithWatch), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if object, is := o.(metav1.Object); is && object.GetName() == "refused" {
				return errors.New("a policy engine refuses it")
			}
			return c.Apply(ctx, o, opts...)
		}})
	for _, name := range []string{"refused", "preset"} {
		preset := &unstructured.Unstructured{}
		preset.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeResourcePolicy"))
		preset.SetName(name)
		k.options.Presets = append(k.options.Presets, preset)
	}
	if _, err := k.Reconcile(t.Context(), webhookRequest); err == nil || !strings.Contains(err.Error(), "a policy engine refuses it") {
		t.Errorf("%v, expected the refusal", err)
	}
	if diff := cmp.Diff([]string{"apply", "apply", "status of alpha, UID alpha-uid"}, *written); diff != "" {
		t.Errorf("writes, of the other preset, the webhooks and the policy (-want +got):\n%s", diff)
	}
}

func TestAGuardThatIsOffRemovesItsWebhooksAndReportsIt(t *testing.T) {
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
	reported := alpha.object.DeepCopy()
	reported.Status.Conditions, _ = (&webhookPass{now: webhookNow, options: k.options, policies: []*webhookPolicy{alpha}}).conditions(alpha)
	// A sweeper that ended later may have written condition Swept last.
	k, written = webhookWithCache(t, []client.Object{reported}, []client.Object{reported})
	k.options.Disabled = true
	if _, err := k.Reconcile(t.Context(), webhookRequest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"status of alpha, UID alpha-uid"}, *written); diff != "" {
		t.Errorf("writes where only Swept is missing (-want +got):\n%s", diff)
	}
	s := &sweeper{clock: k.options.Clock}
	reported.Status.Conditions = append(reported.Status.Conditions, s.sweptCondition(reported, metav1.ConditionFalse, v1alpha1.ReasonGuardDisabled, webhookDisabled))
	k, written = webhookWithCache(t, []client.Object{reported}, []client.Object{reported})
	k.options.Disabled = true
	if _, err := k.Reconcile(t.Context(), webhookRequest); err != nil || len(*written) != 0 {
		t.Errorf("it was reported, and yet: %v, %s", err, *written)
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

func TestTheTimeOfAChangedDefinitionIsNoted(t *testing.T) {
	k := &webhookReconciler{options: Options{Clock: clocktesting.NewFakePassiveClock(webhookNow)}}
	if passes := k.noteDefinition().Update(event.UpdateEvent{ObjectOld: definitionMetadata(), ObjectNew: definitionMetadata()}); !passes {
		t.Error("the event was held back")
	}
	if changed := k.definitionChanged.Load(); changed == nil || !changed.Equal(webhookNow) {
		t.Errorf("noted %v, expected %s", changed, webhookNow)
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
	note := func(verb string) error { *written = append(*written, verb); return nil }
	writer := with(cached).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return note("update")
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return note("delete")
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return note("apply")
		},
		SubResourceApply: func(_ context.Context, _ client.Client, subresource string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			object := o.(metav1.Object)
			return note(fmt.Sprintf("%s of %s, UID %s", subresource, object.GetName(), object.GetUID()))
		},
	}).Build()
	options := webhookOptions()
	options.Clock = clocktesting.NewFakePassiveClock(webhookNow)
	return newWebhookReconciler(writer, with(live).Build(), webhookServesAll{}, events.NewFakeRecorder(10), options), written
}
