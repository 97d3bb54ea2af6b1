// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

func TestThePauseDoublesUpToALimit(t *testing.T) {
	contest := webhookContest{}
	var pauses []time.Duration
	for range 14 {
		pauses = append(pauses, contest.pause())
		contest.restored(webhookNow)
	}
	want := []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		64 * time.Second, 128 * time.Second, 256 * time.Second, 5 * time.Minute, 5 * time.Minute}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHowLongAnEditHasToStay(t *testing.T) {
	for name, test := range map[string]struct {
		restorations int
		ago          time.Duration
		wait, quiet  time.Duration
	}{
		"the first edits are undone at once":         {2, 0, 0, webhookContestQuiet},
		"the next one waits":                         {3, 0, time.Second, webhookContestQuiet},
		"the time since the last restoration counts": {5, time.Second, 3 * time.Second, webhookContestQuiet - time.Second},
		"the pause is over":                          {5, 4 * time.Second, 0, webhookContestQuiet - 4*time.Second},
		"no other writer has edited for long":        {5, webhookContestQuiet, 0, 0},
		"the silence is longer than the pause":       {30, webhookContestLast, 0, webhookContestLast},
		"the clock was set back":                     {5, -time.Hour, 4 * time.Second, webhookContestQuiet},
	} {
		t.Run(name, func(t *testing.T) {
			contest := webhookContest{restorations: test.restorations, last: webhookNow.Add(-test.ago)}
			if wait, quiet := contest.wait(webhookNow), contest.quiet(webhookNow); wait != test.wait || quiet != test.quiet {
				t.Errorf("got %s and %s, expected %s and %s", wait, quiet, test.wait, test.quiet)
			}
			contest.endIfQuiet(webhookNow)
			if over := contest.restorations == 0; over != (test.quiet == 0) {
				t.Errorf("over: %t", over)
			}
		})
	}
}

// webhookManaged is what the API server notes of a writer.
func webhookManaged(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestWhoKeepsChangingWhat(t *testing.T) {
	alpha, bravo := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail), webhookTestPolicy(t, "bravo", v1alpha1.PolicyFail)
	name := nodepolicy.EntryName("alpha")
	entry := func(field string) string {
		return `{"f:webhooks":{".":{},"k:{\"name\":\"` + name + `\"}":{"f:` + field + `":{}}}}`
	}
	type configuration = admissionregistrationv1.ValidatingWebhookConfiguration
	selector := func(c *configuration) {
		c.Webhooks[0].NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "control-plane", Operator: "NotIn", Values: []string{"true"}}}
	}
	enforcer := webhookManaged("enforcer", entry("namespaceSelector"))
	for what, test := range map[string]struct {
		edit    func(*configuration)
		managed []metav1.ManagedFieldsEntry
		want    string
	}{
		"the owner of the field, and of no other": {selector, []metav1.ManagedFieldsEntry{webhookManaged(WebhooksFieldManager, entry("namespaceSelector")),
			webhookManaged("injector", entry("clientConfig")), webhookManaged("odd", "{"), enforcer},
			`another writer, field manager "enforcer", keeps changing namespaceSelector of webhook ` + name},
		"either of two owners": {selector, []metav1.ManagedFieldsEntry{enforcer, webhookManaged("also", `{"f:webhooks":{"k:{\"name\":\"`+name+`\"}":{"f:namespaceSelector":{"f:matchExpressions":{}}}}}`)},
			`another writer, field manager "also" or "enforcer", keeps changing namespaceSelector of webhook ` + name},
		"no manager, where the field is gone": {func(c *configuration) {
			c.Webhooks[0].MatchConditions, c.Webhooks[0].TimeoutSeconds = nil, new(int32(9))
		}, []metav1.ManagedFieldsEntry{enforcer}, "another writer keeps changing matchConditions, timeoutSeconds of webhook " + name},
		"no manager, where none is noted": {selector, nil, "another writer keeps changing namespaceSelector of webhook " + name},
		"an entry that is removed":        {func(c *configuration) { c.Webhooks = c.Webhooks[1:] }, []metav1.ManagedFieldsEntry{enforcer}, "another writer keeps removing webhook " + name},
	} {
		t.Run(what, func(t *testing.T) {
			pass := &webhookPass{now: webhookNow, options: webhookOptions(), protection: []byte("CA"), policies: []*webhookPolicy{alpha, bravo}}
			wanted := pass.wanted()
			stored := wanted.DeepCopy()
			test.edit(stored)
			stored.ManagedFields = test.managed
			if got := webhookChange(stored, wanted, name); got != test.want {
				t.Errorf("got %q, expected %q", got, test.want)
			}
		})
	}
	if got, want := webhookChange(nil, nil, name), "another writer keeps removing webhook "+name; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

func TestOnlyAContestedPolicySaysSo(t *testing.T) {
	alpha, bravo := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail), webhookTestPolicy(t, "bravo", v1alpha1.PolicyFail)
	pass := &webhookPass{now: webhookNow, options: webhookOptions(), protection: []byte("CA"), policies: []*webhookPolicy{alpha, bravo}, contest: &webhookContest{}}
	pass.stored = pass.wanted()
	pass.stored.Webhooks[1].Rules = nil
	pass.contest.note(pass, &webhookRestoration{policies: []*v1alpha1.NodeResourcePolicy{bravo.object}})
	if got := pass.enforcement(alpha); got.Status != metav1.ConditionTrue {
		t.Errorf("the policy that nobody touched: %+v", got)
	}
	got := pass.enforcement(bravo)
	if got.Status != metav1.ConditionFalse || got.Reason != string(v1alpha1.ReasonWebhookContested) || !strings.Contains(got.Message, "keeps changing rules of webhook") {
		t.Errorf("the contested policy: %+v", got)
	}
	pass.stored = pass.wanted()
	if got := pass.enforcement(bravo); got.Status != metav1.ConditionFalse {
		t.Errorf("put back, and at once trusted: %+v", got)
	}
	pass.contest.restored(webhookNow)
	pass.contest.endIfQuiet(webhookNow.Add(webhookContestQuiet))
	if got := pass.enforcement(bravo); got.Status != metav1.ConditionTrue {
		t.Errorf("the contest is over: %+v", got)
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

// looks lets the webhook controller look, and says what has to come of it: the entry in place or not, and when it looks again.
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
	for range webhookContestFree {
		c.edit()
		c.looks("after an edit", true, 0)
	}
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		c.edit()
		c.looks("after an edit too many", false, pause)
		clock.SetTime(clock.Now().Add(pause))
		c.looks("after the pause", true, webhookContestQuiet)
	}
	clock.SetTime(clock.Now().Add(webhookContestQuiet))
	c.looks("after a long silence", true, 0)
	if c.k.contest.contested() {
		t.Error("after a long silence it is still contested")
	}
	c.edit()
	c.looks("after the next edit", true, 0)
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
		WithObjects(append(objects, protection)...).Build()
	k.client, k.live, k.options.Clock = server, server, clock
	return k
}
