// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

var webhookNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func webhookOptions() Options {
	return Options{
		Target: nodepolicy.Target{Service: &admissionregistrationv1.ServiceReference{
			Namespace: "holdfast-system", Name: "holdfast-webhook", Port: new(int32(443))}},
		Certificate: types.NamespacedName{Namespace: "holdfast-system", Name: "holdfast-webhook"},
	}
}

// webhookTestPolicy is a policy that can work, as judge makes it.
func webhookTestPolicy(t *testing.T, name string, failurePolicy v1alpha1.PolicyFailure) *webhookPolicy {
	t.Helper()
	object := &v1alpha1.NodeResourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Generation: 3},
		Spec: v1alpha1.NodeResourcePolicySpec{Resource: v1alpha1.GuardedResource{Group: "machines.example.com", Resource: "gadgets"},
			FailurePolicy: failurePolicy},
	}
	compiled, err := nodepolicy.Compile(object)
	if err != nil {
		t.Fatal(err)
	}
	accepted := webhookAcceptance(compiled.Spec().Resource, webhookServed{versions: []string{"v1"}, status: []string{"v1"}})
	return &webhookPolicy{object: object, compiled: compiled, accepted: &accepted}
}

// webhookEntries are entries of policies, by name and authority.
func webhookEntries(named ...[2]string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}
	for _, entry := range named {
		webhook := admissionregistrationv1.ValidatingWebhook{Name: entry[0]}
		if entry[1] != "" {
			webhook.ClientConfig.CABundle = []byte(entry[1])
		}
		c.Webhooks = append(c.Webhooks, webhook)
	}
	return c
}

func TestTheAuthorityOfAnEntry(t *testing.T) {
	mine, other := nodepolicy.EntryName("mine"), nodepolicy.EntryName("other")
	for name, test := range map[string]struct {
		authority webhookAuthority
		want      string
	}{
		"is its own, with any other entries":        {webhookAuthority{stored: webhookEntries([2]string{other, "O"}, [2]string{mine, "M"}), protection: []byte("S")}, "M"},
		"is that of another entry for a new one":    {webhookAuthority{stored: webhookEntries([2]string{other, "O"}), protection: []byte("S")}, "O"},
		"is that of another where it was emptied":   {webhookAuthority{stored: webhookEntries([2]string{mine, ""}, [2]string{other, "O"}), protection: []byte("S")}, "O"},
		"is never that of another client's entry":   {webhookAuthority{stored: webhookEntries([2]string{"a.example.com", "X"}), protection: []byte("S")}, "S"},
		"is the protection webhook's for the first": {webhookAuthority{protection: []byte("S")}, "S"},
		"is empty where there is none":              {webhookAuthority{stored: webhookEntries([2]string{mine, ""})}, ""},
		"follows the protection webhook's":          {webhookAuthority{stored: webhookEntries([2]string{mine, "M"}), protection: []byte("S"), follow: true}, "S"},
		"stays where there is nothing to follow":    {webhookAuthority{stored: webhookEntries([2]string{mine, "M"}), follow: true}, "M"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(test.authority.of("mine")); got != test.want {
				t.Errorf("the authority is %q, expected %q", got, test.want)
			}
		})
	}
}

func TestTheProtectionWebhooksAuthorityIsTheFirst(t *testing.T) {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{{}, {}}}
	if got := webhookProtectionAuthority(c); got != nil {
		t.Errorf("found %q where there is none", got)
	}
	c.Webhooks[1].ClientConfig.CABundle = []byte("S")
	if got := string(webhookProtectionAuthority(c)); got != "S" {
		t.Errorf("found %q, expected S", got)
	}
}

func TestTheWantedConfiguration(t *testing.T) {
	alpha, bravo := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail), webhookTestPolicy(t, "bravo", v1alpha1.PolicyIgnore)
	stored := webhookEntries([2]string{"a.example.com", "X"}, [2]string{nodepolicy.EntryName("bravo"), "B"})
	stored.UID, stored.ResourceVersion, stored.Labels = "config-uid", "7", map[string]string{"team": "network"}
	stored.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "another", UID: "x"}}
	wanted := webhookConfiguration(stored, []*webhookPolicy{alpha, bravo}, webhookAuthority{stored: stored}, webhookOptions())

	want := metav1.ObjectMeta{
		Name: ConfigurationName, UID: "config-uid", ResourceVersion: "7",
		Labels: map[string]string{"team": "network", "app.kubernetes.io/part-of": "holdfast", "app.kubernetes.io/managed-by": "holdfast-manager",
			"admissions.enforcer/disabled": "true"},
		Annotations: map[string]string{"cert-manager.io/inject-ca-from": "holdfast-system/holdfast-webhook"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "holdfast.dev/v1alpha1", Kind: "NodeResourcePolicy", Name: "alpha", UID: "alpha-uid"},
			{APIVersion: "holdfast.dev/v1alpha1", Kind: "NodeResourcePolicy", Name: "bravo", UID: "bravo-uid"},
		},
	}
	if diff := cmp.Diff(want, wanted.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	entries := []admissionregistrationv1.ValidatingWebhook{
		alpha.compiled.Entry(webhookOptions().Target, []byte("B")), bravo.compiled.Entry(webhookOptions().Target, []byte("B"))}
	if diff := cmp.Diff(entries, wanted.Webhooks); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if again := webhookConfiguration(wanted, []*webhookPolicy{alpha, bravo}, webhookAuthority{stored: wanted}, webhookOptions()); !webhookEqual(wanted, again) {
		t.Errorf("what is in place is not left alone:\n%s", cmp.Diff(wanted, again))
	}
	if len(stored.Webhooks) != 2 || stored.Webhooks[0].Name != "a.example.com" {
		t.Error("the stored configuration, which a cache may own, was changed")
	}
}

// The installation had cert-manager, and was given an authority of the user's own (docs/decisions/0284).
func TestNoInjectorIsAskedWhereAnAuthorityIsFollowed(t *testing.T) {
	options := webhookOptions()
	options.Certificate = types.NamespacedName{}
	for name, tc := range map[string]struct {
		protection string
		want       map[string]string
	}{
		"the protection webhook's":    {"S", map[string]string{"team": "network"}},
		"none is there yet to follow": {"", map[string]string{"team": "network", webhookInjectAnnotation: "holdfast-system/holdfast-webhook"}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := webhookEntries([2]string{nodepolicy.EntryName("alpha"), "C"})
			stored.Annotations = map[string]string{"team": "network", webhookInjectAnnotation: "holdfast-system/holdfast-webhook"}
			authority := webhookAuthority{stored: stored, protection: []byte(tc.protection), follow: true}
			wanted := webhookConfiguration(stored, []*webhookPolicy{webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)}, authority, options)
			if diff := cmp.Diff(tc.want, wanted.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThereIsNoConfigurationWithoutAnAcceptedPolicy(t *testing.T) {
	broken, rejected := &webhookPolicy{object: &v1alpha1.NodeResourcePolicy{}}, webhookTestPolicy(t, "rejected", v1alpha1.PolicyIgnore)
	rejected.reject("no")
	for name, policies := range map[string][]*webhookPolicy{"no policy": nil, "none that works": {broken}, "none that the API server takes": {rejected}} {
		t.Run(name, func(t *testing.T) {
			if wanted := webhookConfiguration(nil, policies, webhookAuthority{}, webhookOptions()); wanted != nil {
				t.Errorf("wanted %v", wanted)
			}
		})
	}
}

func TestEnforcedReportsWhatTheAPIServerHas(t *testing.T) {
	withCA := func(ca string) func(*webhookPass) {
		return func(pass *webhookPass) {
			entry := pass.policies[0].compiled.Entry(pass.options.Target, []byte(ca))
			pass.stored = &admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{entry}}
		}
	}
	for name, test := range map[string]struct {
		given  func(*webhookPass)
		status metav1.ConditionStatus
		reason v1alpha1.Reason
		says   string
	}{
		"an entry with an authority": {withCA("CA"), metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured, nodepolicy.EntryName("alpha")},
		"an entry with another authority than the protection webhook's": {func(pass *webhookPass) {
			withCA("CA")(pass)
			pass.protection = []byte("another")
		}, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured, "its caBundle is not that of MutatingWebhookConfiguration holdfast-protect"},
		"an entry, but the guard is off": {func(pass *webhookPass) {
			withCA("CA")(pass)
			pass.options.Disabled = true
		}, metav1.ConditionFalse, v1alpha1.ReasonGuardDisabled, "nodeResources.enabled: false"},
		"an entry without an authority": {withCA(""), metav1.ConditionFalse, v1alpha1.ReasonAwaitingCABundle,
			"Certificate holdfast-system/holdfast-webhook"},
		"no authority and no injector": {func(pass *webhookPass) {
			withCA("")(pass)
			pass.options.Certificate = types.NamespacedName{}
		}, metav1.ConditionFalse, v1alpha1.ReasonAwaitingCABundle, "MutatingWebhookConfiguration holdfast-protect has no caBundle either"},
		"an entry that the API server refuses": {func(pass *webhookPass) { pass.policies[0].reject("no") },
			metav1.ConditionFalse, v1alpha1.ReasonPolicyNotAccepted, "condition Accepted says why"},
		"no entry, and no right to write it": {func(pass *webhookPass) { pass.refusal, pass.protection = "you may not", []byte("CA") },
			metav1.ConditionFalse, v1alpha1.ReasonWebhookRejected, "you may not"},
		"another entry than wanted, and no right to change it": {func(pass *webhookPass) {
			withCA("CA")(pass)
			pass.stored.Webhooks[0].MatchConditions, pass.refusal = nil, "you may not"
		}, metav1.ConditionFalse, v1alpha1.ReasonWebhookRejected, "you may not"},
		"the wanted entry beside another that may not be written": {func(pass *webhookPass) {
			withCA("CA")(pass)
			pass.refusal = "you may not"
		}, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured, nodepolicy.EntryName("alpha")},
	} {
		t.Run(name, func(t *testing.T) {
			pass := &webhookPass{now: webhookNow, options: webhookOptions(), policies: []*webhookPolicy{webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail)}}
			test.given(pass)
			got := pass.enforcement(pass.policies[0])
			if got.Status != test.status || got.Reason != string(test.reason) || !strings.Contains(got.Message, test.says) {
				t.Errorf("got %s %s %q, expected %s %s with %q", got.Status, got.Reason, got.Message, test.status, test.reason, test.says)
			}
		})
	}
}

func TestConditionsKeepTheirTransitionAndTheLastState(t *testing.T) {
	p := webhookTestPolicy(t, "alpha", v1alpha1.PolicyIgnore)
	pass := &webhookPass{now: webhookNow, options: webhookOptions(), policies: []*webhookPolicy{p}, protection: []byte("CA")}
	pass.stored = pass.wanted()
	first, changed := pass.conditions(p)
	if !changed || len(first) != 2 {
		t.Fatalf("a policy without conditions gets %v, changed %t", first, changed)
	}
	swept := metav1.Condition{Type: v1alpha1.PolicySwept, Status: metav1.ConditionTrue}
	p.object.Status.Conditions = append([]metav1.Condition{swept}, first...)
	pass.now = webhookNow.Add(time.Hour)
	if again, changed := pass.conditions(p); changed || len(again) != 2 {
		t.Errorf("nothing has changed, and yet: %s", cmp.Diff(first, again))
	}
	p.accepted = nil // unknown
	if again, changed := pass.conditions(p); changed || meta.FindStatusCondition(again, v1alpha1.PolicyAccepted) == nil {
		t.Errorf("the last condition is lost: %s", cmp.Diff(first, again))
	}
	p.object.Generation++
	p.accepted = &first[0]
	again, changed := pass.conditions(p)
	if !changed || again[0].ObservedGeneration != p.object.Generation || !again[0].LastTransitionTime.Time.Equal(webhookNow) {
		t.Errorf("another generation with the same outcome: changed %t, %+v", changed, again[0])
	}
}

func TestWhetherAPolicyCanWorkWithWhatIsServed(t *testing.T) {
	whole := webhookServed{versions: []string{"v1", "v2"}, status: []string{"v2"}}
	for name, test := range map[string]struct {
		versions []string
		noStatus bool
		served   webhookServed
		status   metav1.ConditionStatus
		message  string
	}{
		"not served":                        {[]string{"*"}, false, webhookServed{}, metav1.ConditionTrue, "the API server serves no resource gadgets.machines.example.com; the policy waits for it and begins by itself when it comes. Nothing to do, unless spec.resource is misspelled"},
		"every version":                     {[]string{"*"}, false, whole, metav1.ConditionTrue, "gadgets.machines.example.com is served in v1, v2"},
		"one of the versions is not served": {[]string{"v2", "v3"}, false, whole, metav1.ConditionTrue, "gadgets.machines.example.com is served in v1, v2; of spec.resource.versions, v3 is not served"},
		"none of the versions is served":    {[]string{"v3", "v4"}, false, whole, metav1.ConditionFalse, `the API server serves gadgets.machines.example.com in v1, v2, and not in what spec.resource.versions names: v3, v4; write one of those, or "*"`},
		"the version has no status":         {[]string{"v1"}, false, whole, metav1.ConditionTrue, "gadgets.machines.example.com is served in v1, v2; it has no subresource /status, so only writes of the objects themselves are judged"},
		"the policy leaves the status out":  {[]string{"v1"}, true, whole, metav1.ConditionTrue, "gadgets.machines.example.com is served in v1, v2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhookAcceptance(v1alpha1.GuardedResource{Group: "machines.example.com", Resource: "gadgets", Versions: test.versions, Status: new(!test.noStatus)}, test.served)
			reason := v1alpha1.ReasonPolicyAccepted
			if test.status == metav1.ConditionFalse || len(test.served.versions) == 0 {
				reason = v1alpha1.ReasonResourceNotServed
			}
			want := metav1.Condition{Type: v1alpha1.PolicyAccepted, Status: test.status, Reason: string(reason), Message: test.message}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// webhookRefusingAPI is a client that takes only some updates, and notes what is deleted.
type webhookRefusingAPI struct {
	client.Client
	refuse func(*admissionregistrationv1.ValidatingWebhookConfiguration) error
	real   int
	// deletions are the preconditions of each.
	deletions []metav1.Preconditions
}

func (c *webhookRefusingAPI) Update(_ context.Context, o client.Object, options ...client.UpdateOption) error {
	given := client.UpdateOptions{}
	if given.ApplyOptions(options); len(given.DryRun) == 0 {
		c.real++
	}
	return c.refuse(o.(*admissionregistrationv1.ValidatingWebhookConfiguration))
}

func (c *webhookRefusingAPI) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	c.deletions = append(c.deletions, *(&client.DeleteOptions{}).ApplyOptions(options).Preconditions)
	return nil
}

func TestOnlyTheConfigurationThatWasSeenIsDeleted(t *testing.T) {
	stored := webhookEntries([2]string{"a", ""})
	stored.UID, stored.ResourceVersion = "config-uid", "7"
	api := &webhookRefusingAPI{}
	if _, err := (&webhookReconciler{client: api}).put(t.Context(), stored, nil); err != nil {
		t.Fatal(err)
	}
	want := []metav1.Preconditions{{UID: new(types.UID("config-uid")), ResourceVersion: new("7")}}
	if diff := cmp.Diff(want, api.deletions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheEntriesThatARefusalIsAboutAreFoundByTrying(t *testing.T) {
	wanted := webhookEntries([2]string{"a", ""}, [2]string{"b", ""}, [2]string{"c", ""})
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ValidatingWebhookConfiguration"}, ConfigurationName, nil)
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, ConfigurationName, errors.New("no"))
	type configuration = admissionregistrationv1.ValidatingWebhookConfiguration
	for name, test := range map[string]struct {
		refusal error
		refuse  func(*configuration) error
		refused []string
		want    error
	}{
		"one entry": {invalid, func(c *configuration) error {
			if len(c.Webhooks) == 1 && c.Webhooks[0].Name == "b" {
				return invalid
			}
			return nil
		}, []string{"b"}, nil},
		"every entry": {invalid, func(c *configuration) error {
			if len(c.Webhooks) > 0 {
				return invalid
			}
			return nil
		}, []string{"a", "b", "c"}, nil},
		"none by itself":            {invalid, func(*configuration) error { return nil }, nil, invalid},
		"the configuration as such": {invalid, func(*configuration) error { return invalid }, nil, invalid},
		"another error in between":  {invalid, func(*configuration) error { return forbidden }, nil, forbidden},
		"not because it is invalid": {forbidden, func(*configuration) error { return invalid }, nil, forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			api := &webhookRefusingAPI{refuse: test.refuse}
			refused, err := (&webhookReconciler{client: api}).refusedEntries(t.Context(), wanted, wanted, test.refusal)
			if diff := cmp.Diff(test.refused, slices.Sorted(maps.Keys(refused))); diff != "" || !errors.Is(err, test.want) {
				t.Errorf("got %v, expected %v; entries (-want +got):\n%s", err, test.want, diff)
			}
			if api.real != 0 {
				t.Errorf("%d trials were no dry run", api.real)
			}
		})
	}
}

func TestOnlyAnotherClientsChangeIsUndone(t *testing.T) {
	pass := func(stored *admissionregistrationv1.ValidatingWebhookConfiguration, policies ...*webhookPolicy) *webhookPass {
		return &webhookPass{now: webhookNow, options: webhookOptions(), stored: stored, protection: []byte("CA"), policies: policies}
	}
	alpha, bravo := webhookTestPolicy(t, "alpha", v1alpha1.PolicyFail), webhookTestPolicy(t, "bravo", v1alpha1.PolicyFail)
	lastWanted := pass(nil, alpha, bravo).wanted()
	edited := lastWanted.DeepCopy()
	edited.Webhooks[1].Rules = nil
	added := lastWanted.DeepCopy()
	added.Webhooks = append(added.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: "x"})
	awaiting := pass(nil, alpha, bravo)
	awaiting.protection = nil
	injected := lastWanted.DeepCopy()
	injected.Webhooks[0].ClientConfig.CABundle = []byte("another")
	injectedToo := edited.DeepCopy()
	injectedToo.Webhooks[1].ClientConfig.CABundle = []byte("another")
	rotated := pass(lastWanted, alpha, bravo)
	rotated.protection, rotated.options.Certificate = []byte("a new one"), types.NamespacedName{}
	rotatedAndEdited := pass(edited, alpha, bravo)
	rotatedAndEdited.protection, rotatedAndEdited.options.Certificate = []byte("a new one"), types.NamespacedName{}
	injectedAndGone := pass(nil, alpha, bravo)
	injectedAndGone.protection = []byte("a new one")
	for name, test := range map[string]struct {
		lastWanted *admissionregistrationv1.ValidatingWebhookConfiguration
		pass       *webhookPass
		want       *webhookRestoration
	}{
		"an entry edited":                {lastWanted, pass(edited, alpha, bravo), &webhookRestoration{policies: []*v1alpha1.NodeResourcePolicy{bravo.object}}},
		"an entry added":                 {lastWanted, pass(added, alpha, bravo), &webhookRestoration{}},
		"all of it deleted":              {lastWanted, pass(nil, alpha, bravo), &webhookRestoration{deleted: true, policies: []*v1alpha1.NodeResourcePolicy{alpha.object, bravo.object}}},
		"nothing":                        {lastWanted, pass(lastWanted, alpha, bravo), nil},
		"a policy that is new":           {pass(nil, alpha).wanted(), pass(pass(nil, alpha).wanted(), alpha, bravo), nil},
		"a policy that went":             {lastWanted, pass(lastWanted, alpha), nil},
		"the first look":                 {nil, pass(edited, alpha, bravo), nil},
		"there is to be none, and is":    {nil, pass(lastWanted), nil},
		"an authority that was injected": {lastWanted, pass(injected, alpha, bravo), nil},
		"the first authority":            {awaiting.wanted(), pass(lastWanted, alpha, bravo), nil},
		"the authority that is followed": {lastWanted, rotated, nil},
		"the authority that is followed, which cannot wait for an edit's turn": {lastWanted, rotatedAndEdited, nil},
		"an entry edited, and an authority injected": {lastWanted, pass(injectedToo, alpha, bravo),
			&webhookRestoration{policies: []*v1alpha1.NodeResourcePolicy{bravo.object}}},
		"all of it deleted with its authority": {lastWanted, injectedAndGone,
			&webhookRestoration{deleted: true, policies: []*v1alpha1.NodeResourcePolicy{alpha.object, bravo.object}}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &webhookReconciler{lastWanted: test.lastWanted}
			if diff := cmp.Diff(test.want, k.undone(test.pass), cmp.AllowUnexported(webhookRestoration{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhenToLookAgain(t *testing.T) {
	served, unserved := webhookTestPolicy(t, "served", v1alpha1.PolicyIgnore), webhookTestPolicy(t, "unserved", v1alpha1.PolicyIgnore)
	unserved.accepted = new(webhookAcceptance(unserved.object.Spec.Resource, webhookServed{}))
	for name, test := range map[string]struct {
		policies  []*webhookPolicy
		changed   time.Duration // ago; zero for never
		rejection time.Duration // ago; zero for none
		want      time.Duration
	}{
		"never where nothing can change unseen":               {[]*webhookPolicy{served}, 0, 0, 0},
		"never without a policy":                              {nil, time.Second, 0, 0},
		"in minutes for what is not served":                   {[]*webhookPolicy{served, unserved}, 0, 0, webhookUnservedInterval},
		"at once after a definition changed":                  {[]*webhookPolicy{served}, time.Millisecond, 0, webhookShortestPause},
		"after as much time again":                            {[]*webhookPolicy{unserved}, 7 * time.Second, 0, 7 * time.Second},
		"never once discovery has followed":                   {[]*webhookPolicy{served}, webhookDiscoveryDelay, 0, 0},
		"in minutes once discovery could have followed":       {[]*webhookPolicy{unserved}, webhookDiscoveryDelay, 0, webhookUnservedInterval},
		"when a refused entry is to be tried again":           {[]*webhookPolicy{served}, 0, 4 * time.Minute, 6 * time.Minute},
		"at once where a refused entry was to be tried again": {[]*webhookPolicy{served}, 0, time.Hour, webhookShortestPause},
	} {
		t.Run(name, func(t *testing.T) {
			k := &webhookReconciler{rejections: map[types.UID]webhookRejection{}}
			if test.changed != 0 {
				k.definitionChanged.Store(new(webhookNow.Add(-test.changed)))
			}
			if test.rejection != 0 {
				k.rejections["x"] = webhookRejection{at: webhookNow.Add(-test.rejection)}
			}
			if got := k.lookAgain(&webhookPass{now: webhookNow, policies: test.policies}); got != test.want {
				t.Errorf("got %s, expected %s", got, test.want)
			}
		})
	}
}

func TestALongMessageIsCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 10000), strings.Repeat("ü", 5000), strings.Repeat("…", 5000)} {
		got := eventlimit.Clip(text, webhookMessageMax, "…")
		if len(got) > webhookMessageMax || len(got) < webhookMessageMax-8 || !strings.HasSuffix(got, "…") || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("%q… became %d bytes ending in %q", text[:6], len(got), got[len(got)-9:])
		}
	}
}
