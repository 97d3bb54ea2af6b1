// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// FuzzObject: what can be read of a node's object names one node, and an object that is unchanged gains nothing.
func FuzzObject(f *testing.F) {
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
