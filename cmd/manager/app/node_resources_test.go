// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

func TestOptionsOfTheGuardOfNodeResources(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	whole := configv1alpha1.ManagerConfiguration{
		NodeResources: configv1alpha1.NodeResources{SweepInterval: &metav1.Duration{Duration: time.Minute}, DeletesPerSecond: new(float32(7))},
		Delays:        configv1alpha1.Delays{NodeGoneDelay: &metav1.Duration{Duration: 4 * time.Second}},
	}
	want := noderesource.Options{SweepInterval: time.Minute, DeletesPerSecond: 7, NodeGoneDelay: 4 * time.Second, Clock: clock,
		Target: nodepolicy.Target{Service: &admissionregistrationv1.ServiceReference{
			Namespace: "holdfast-system", Name: "holdfast-webhook", Port: new(int32(443))}},
		Certificate: types.NamespacedName{Namespace: "holdfast-system", Name: "holdfast-webhook"}}
	for name, change := range map[string]func(*configv1alpha1.ManagerConfiguration){
		"behind a Service": func(*configv1alpha1.ManagerConfiguration) {},
		"at a URL, where no controller injects a CA bundle": func(c *configv1alpha1.ManagerConfiguration) {
			c.Server.WebhookURL = "https://192.0.2.1:9443"
			want.Target, want.Certificate = nodepolicy.Target{URL: "https://192.0.2.1:9443"}, types.NamespacedName{}
		},
		"turned off": func(c *configv1alpha1.ManagerConfiguration) {
			c.NodeResources.Enabled = new(false)
			want.Disabled = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			given, before := whole, want
			change(&given)
			got := nodeResourceOptions(complete(t, given), Options{Clock: clock}.withDefaults())
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *clocktesting.FakePassiveClock) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			want = before
		})
	}
}

// failingMapper fails.
type failingMapper struct {
	meta.RESTMapper
	err error
}

func (m failingMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, m.err
}

func TestDefinesNodeResourcePolicies(t *testing.T) {
	broken := errors.New("no response")
	defined := meta.NewDefaultRESTMapper(nil)
	defined.Add(v1alpha1.GroupVersion.WithKind("NodeResourcePolicy"), meta.RESTScopeRoot)
	another := meta.NewDefaultRESTMapper(nil)
	another.Add(v1alpha1.GroupVersion.WithKind("IPAllocation"), meta.RESTScopeRoot)
	for name, test := range map[string]struct {
		mapper meta.RESTMapper
		want   bool
		err    error
	}{
		"they are":                        {defined, true, nil},
		"only another kind of the group":  {another, false, nil},
		"the group is not there":          {meta.NewDefaultRESTMapper(nil), false, nil},
		"discovery fails, so it must end": {failingMapper{err: broken}, false, broken},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := definesNodeResourcePolicies(test.mapper)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %t, %v, expected %t, %v", got, err, test.want, test.err)
			}
		})
	}
}

// TestPresetsArePoliciesThatDeny: each compiles, has the name that the configuration knows, and leaves what users set to its default.
func TestPresetsArePoliciesThatDeny(t *testing.T) {
	names := configv1alpha1.NodeResourcePresets()
	presets, err := nodeResourcePresets(names)
	if err != nil {
		t.Fatal(err)
	}
	if len(presets) != len(names) {
		t.Fatalf("%d policies of %d presets", len(presets), len(names))
	}
	for i, preset := range presets {
		var policy v1alpha1.NodeResourcePolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(preset.Object, &policy, true); err != nil {
			t.Fatal(err)
		}
		compiled, err := nodepolicy.Compile(&policy)
		if err != nil {
			t.Fatal(err)
		}
		if policy.Name != names[i] || compiled.Spec().Action != v1alpha1.PolicyDeny || compiled.Spec().Stale != v1alpha1.StaleReport {
			t.Errorf("preset %s: %+v", names[i], compiled.Spec())
		}
		if policy.Spec.Action != "" || policy.Spec.Stale != "" {
			t.Errorf("preset %s sets action or stale, and takes them from users who set them by an apply", names[i])
		}
	}
	if _, err := nodeResourcePresets([]string{"ciliumnodes"}); err == nil {
		t.Error("a preset that there is not was found")
	}
}
