// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// FuzzObject: what can be read of a node's object names one node, and an object that is unchanged gains nothing.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"acn.azure.com/v1alpha","kind":"NodeNetworkConfig","metadata":{"name":"n","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]},` +
			`"status":{"networkContainers":[{"primaryIP":"10.0.0.0/24","ipAssignments":[{"ip":"10.0.0.1"}]}]}}`,
		`{"kind":"x","metadata":{"name":"n","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a"]},"status":{"networkContainers":[{"primaryIP":"fd00::1%eth0"}]}}`,
		`{"kind":"x","metadata":{"name":"n","ownerReferences":{}}}`, `{"kind":"x","metadata":{"finalizers":[1]}}`, `{"kind":"x","status":{"networkContainers":7}}`,
	} {
		f.Add([]byte(seed))
	}
	compiled, err := nodepolicy.Compile(policy(holding("self.status.networkContainers.map(c, c.primaryIP)")))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(raw) != nil {
			return
		}
		o, err := compiled.Object(u)
		if err == nil && o.NodeName != u.GetName() {
			t.Errorf("the object is of node %q; expected %q, its own name", o.NodeName, u.GetName())
		}
		if _, unreadable := compiled.Prefixes(u); unreadable == nil {
			if gain := compiled.Gains(u, u); gain != "" {
				t.Errorf("an object that did not change gains %s", gain)
			}
		}
	})
}
