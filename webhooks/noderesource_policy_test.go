// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

func TestAVersionOfAPolicyIsCompiledOnce(t *testing.T) {
	const waiting = 20
	compiled := newCompiledPolicies()
	results := make([]*nodepolicy.Compiled, waiting)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			var err error
			if results[i], err = compiled.of(nncPolicy()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i := range results {
		if results[i] != results[0] {
			t.Fatal("the same version was compiled more than once")
		}
	}
}

func TestAChangedPolicyIsCompiledAnew(t *testing.T) {
	compiled := newCompiledPolicies()
	first, err := compiled.of(nncPolicy())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*v1alpha1.NodeResourcePolicy){
		"a newer generation":            func(p *v1alpha1.NodeResourcePolicy) { p.Generation = 2 },
		"another policy under the name": func(p *v1alpha1.NodeResourcePolicy) { p.UID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			policy := nncPolicy(withAction(v1alpha1.PolicyWarn))
			change(policy)
			got, err := compiled.of(policy)
			if err != nil {
				t.Fatal(err)
			}
			if got == first || got.Spec().Action != v1alpha1.PolicyWarn {
				t.Errorf("got action %s, want that of the changed policy", got.Spec().Action)
			}
		})
	}
}

func TestAPolicyThatCannotWorkIsReportedEveryTime(t *testing.T) {
	compiled := newCompiledPolicies()
	for range 2 {
		if _, err := compiled.of(nncPolicy(brokenExpression)); err == nil {
			t.Error("got no error")
		}
	}
}

func TestCompiledPoliciesAreBounded(t *testing.T) {
	compiled := newCompiledPolicies()
	for i := range 2 * maxCompiled {
		policy := nncPolicy()
		policy.UID = types.UID(fmt.Sprint(i))
		compiled.compilation(policy)
	}
	if got := compiled.versions.Len(); got != maxCompiled {
		t.Errorf("%d versions are kept, want %d", got, maxCompiled)
	}
}

// TestWritesAreCounted looks at every decision; the world has a name of its own per decision, since metrics are global.
func TestWritesAreCounted(t *testing.T) {
	for decision, tc := range map[string]struct {
		action v1alpha1.PolicyAction
		live   types.UID
		reason string
	}{
		"allowed":   {v1alpha1.PolicyDeny, "old", "NodeUIDMatches"},
		"warned":    {v1alpha1.PolicyWarn, "live", "StaleNodeUID"},
		"audited":   {v1alpha1.PolicyAudit, "live", "StaleNodeUID"},
		"refused":   {v1alpha1.PolicyDeny, "live", "StaleNodeUID"},
		"undecided": {v1alpha1.PolicyDeny, "!", "ObservationFailed"},
	} {
		t.Run(decision, func(t *testing.T) {
			policy := nncPolicy(withAction(tc.action))
			policy.Name, policy.UID = "counted-"+decision, types.UID(decision)
			onNode(policy, "live", tc.live).ask(t, nodepolicy.PathPrefix+policy.Name, createOf(nnc(stale)))
			want := map[string]float64{
				"holdfast_node_resource_writes_total " + decision + " " + policy.Name + " " + tc.reason: 1,
				"holdfast_node_resource_live_reads_total " + policy.Name:                                1,
				"holdfast_node_resource_duration_seconds " + policy.Name:                                1,
			}
			got := series(t, policy.Name)
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s is %v, want %v", key, got[key], value)
				}
			}
			if len(got) != len(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestACallerCannotMakeSeries: any client may choose the path, so a name without a policy is no label.
func TestACallerCannotMakeSeries(t *testing.T) {
	onNode(nncPolicy(), "live", "live").ask(t, nodepolicy.PathPrefix+"made-up", createOf(nnc(stale)))
	if got := series(t, "made-up"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// series are the values of what has this policy: the name of the metric and the labels' values, in the order of their names.
func series(t *testing.T, policy string) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			key, ours := family.GetName(), false
			for _, label := range metric.GetLabel() {
				key += " " + label.GetValue()
				ours = ours || label.GetName() == "policy" && label.GetValue() == policy
			}
			if ours {
				found[key] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return found
}
