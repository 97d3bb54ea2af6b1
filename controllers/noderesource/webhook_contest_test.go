// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

func TestAContestedChangeIsNamed(t *testing.T) {
	alpha := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)
	name := nodepolicy.EntryName("alpha")
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".webhooks.namespaceSelector",
		Message: `conflict with "enforcer"`}}, "Apply failed with 1 conflict")
	for what, test := range map[string]struct {
		removed bool
		err     error
		want    string
	}{
		"fields of another manager":             {false, conflict, "another client keeps changing webhook " + name + `; .webhooks.namespaceSelector: conflict with "enforcer"`},
		"no manager, where the field is absent": {false, nil, "another client keeps changing webhook " + name},
		"an entry that is removed":              {true, nil, "another client keeps removing webhook " + name},
	} {
		t.Run(what, func(t *testing.T) {
			pass := &webhookPass{now: webhookNow, options: webhookOptions(), protection: []byte("CA"), policies: []*webhookPolicy{alpha}}
			if !test.removed {
				pass.stored = pass.wanted()
			}
			api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Apply: func(_ context.Context, _ client.WithWatch, _ runtime.ApplyConfiguration, options ...client.ApplyOption) error {
					given := client.ApplyOptions{}
					given.ApplyOptions(options)
					if len(given.DryRun) == 0 || given.Force != nil {
						t.Error("it was no dry run, or forced")
					}
					return test.err
				}})
			if got := (&webhookReconciler{client: api}).contestedChange(t.Context(), pass, name); got != test.want {
				t.Errorf("got %q, expected %q", got, test.want)
			}
		})
	}
}

func TestOnlyAContestedPolicyReportsIt(t *testing.T) {
	alpha, bravo := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail), webhookTestPolicy(t, "bravo", v1alpha1.PolicyFail)
	pass := &webhookPass{now: webhookNow, options: webhookOptions(), protection: []byte("CA"), policies: []*webhookPolicy{alpha, bravo},
		contested: map[types.UID]string{bravo.object.UID: "another client keeps changing webhook bravo"}}
	pass.stored = pass.wanted()
	if got := pass.enforcement(alpha); got.Status != metav1.ConditionTrue {
		t.Errorf("the policy whose webhook stayed: %+v", got)
	}
	got := pass.enforcement(bravo)
	if got.Status != metav1.ConditionFalse || got.Reason != string(v1alpha1.ReasonWebhookContested) || !strings.Contains(got.Message, "keeps changing webhook bravo in") {
		t.Errorf("the contested policy: %+v", got)
	}
}

// contest is a webhook controller beside another writer of its configuration.
type contest struct {
	*testing.T
	k *webhookReconciler
}

func (c contest) stored() *admissionregistrationv1.ValidatingWebhookConfiguration {
	c.Helper()
	stored := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := c.k.client.Get(c.Context(), client.ObjectKey{Name: ConfigurationName}, stored); err != nil {
		c.Fatal(err)
	}
	return stored
}

// edit is the other writer's.
func (c contest) edit() {
	c.Helper()
	stored := c.stored()
	stored.Webhooks[0].Rules = nil
	if err := c.k.client.Update(c.Context(), stored); err != nil {
		c.Fatal(err)
	}
}

// looks reconciles, and compares whether the entry is in place, and when the next look is.
func (c contest) looks(when string, inPlace bool, again time.Duration) {
	c.Helper()
	result, err := c.k.Reconcile(c.Context(), webhookRequest)
	if err != nil {
		c.Fatal(err)
	}
	if got := len(c.stored().Webhooks[0].Rules) > 0; got != inPlace || result.RequeueAfter != again {
		c.Errorf("%s: in place %t, looks again in %s; expected %t and %s", when, got, result.RequeueAfter, inPlace, again)
	}
}

func TestTheWebhookControllerComesBackByItselfInAContest(t *testing.T) {
	alpha := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)
	clock := clocktesting.NewFakePassiveClock(webhookNow)
	c := contest{t, webhookWithServer(t, clock, alpha.object)}
	c.looks("with nothing to do", true, 0)
	for range webhookFreeRestorations {
		c.edit()
		c.looks("after an edit", true, 0)
	}
	for range 3 {
		c.edit()
		c.looks("after an edit too many", false, webhookRestoreInterval)
		clock.SetTime(clock.Now().Add(webhookRestoreInterval))
		c.looks("after the interval", true, webhookContestQuiet)
	}
	clock.SetTime(clock.Now().Add(webhookContestQuiet))
	c.looks("after two minutes without an edit", true, 0)
	if len(c.k.contested) > 0 {
		t.Error("it is still contested")
	}
	c.edit()
	c.looks("after the next edit", true, 0)
}

func TestAWriteThatFailsUsesUpNoRestoration(t *testing.T) {
	alpha := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)
	c := contest{t, webhookWithServer(t, clocktesting.NewFakePassiveClock(webhookNow), alpha.object)}
	c.looks("with nothing to do", true, 0)
	c.edit()
	server := c.k.client
	c.k.client = interceptor.NewClient(server.(client.WithWatch), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return apierrors.NewServiceUnavailable("down")
		}})
	for range webhookFreeRestorations + 1 {
		if _, err := c.k.Reconcile(t.Context(), webhookRequest); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("error %v, expected that the write failed", err)
		}
	}
	c.k.client = server
	c.looks("once the API server is back", true, 0)
	if len(c.k.contested) > 0 {
		t.Errorf("contested: %v", c.k.contested)
	}
}

func TestOnlyAnAuthorityThatNoInjectorWritesIsFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"written by hand": {nil, "renewed"},
		"injected":        {map[string]string{webhookInjectAnnotation: "holdfast-system/holdfast-webhook"}, "CA"},
	} {
		t.Run(name, func(t *testing.T) {
			alpha := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)
			c := contest{t, webhookWithServer(t, clocktesting.NewFakePassiveClock(webhookNow), alpha.object)}
			protection := &admissionregistrationv1.MutatingWebhookConfiguration{}
			for _, authority := range []string{"CA", "renewed"} {
				if err := c.k.client.Get(t.Context(), client.ObjectKey{Name: ProtectionConfigurationName}, protection); err != nil {
					t.Fatal(err)
				}
				protection.Annotations, protection.Webhooks[0].ClientConfig.CABundle = test.annotations, []byte(authority)
				if err := c.k.client.Update(t.Context(), protection); err != nil {
					t.Fatal(err)
				}
				if _, err := c.k.Reconcile(t.Context(), webhookRequest); err != nil {
					t.Fatal(err)
				}
			}
			stored := c.stored()
			if got := string(stored.Webhooks[0].ClientConfig.CABundle); got != test.want {
				t.Errorf("the authority is %q, expected %q", got, test.want)
			}
			if _, injected := stored.Annotations[webhookInjectAnnotation]; injected != (test.annotations != nil) {
				t.Errorf("the injector is asked: %t, expected %t", injected, test.annotations != nil)
			}
		})
	}
}

// webhookWithServer is a webhook controller whose writes are taken.
func webhookWithServer(t *testing.T, clock *clocktesting.FakePassiveClock, objects ...client.Object) *webhookReconciler {
	t.Helper()
	k, _ := webhookWithCache(t, nil, nil)
	protection := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ProtectionConfigurationName},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte("CA")}}}}
	server := fake.NewClientBuilder().WithScheme(k.client.Scheme()).WithStatusSubresource(&v1alpha1.NodeResourcePolicy{}).
		WithObjects(append(objects, protection)...).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, below client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			given := client.ApplyOptions{}
			if given.ApplyOptions(options); len(given.DryRun) > 0 { // the fake client would write
				return nil
			}
			return below.Apply(ctx, object, options...)
		}}).Build()
	k.client, k.live, k.options.Clock, k.restorations = server, server, clock, newRestorationLimit(clock)
	return k
}
