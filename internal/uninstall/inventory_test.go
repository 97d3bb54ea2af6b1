// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsOurs(t *testing.T) {
	ours := map[string]string{partOfLabel: partOf}
	clusterRole, lease := kind(rbacGroup, "v1", "ClusterRole"), kind("coordination.k8s.io", "v1", "Lease")
	cases := map[string]struct {
		gvk    schema.GroupVersionKind
		name   string
		labels map[string]string
		want   bool
	}{
		"a known webhook without a label":                     {mutatingWebhooks, "holdfast-protect", nil, true},
		"a policy with a name in our domain":                  {protectors[1], "protect.holdfast.dev", nil, true},
		"a policy with a name that only contains our domain":  {protectors[1], "protect.holdfast.dev.example.com", nil, false},
		"a definition of our group":                           {definitions, "ipallocations.holdfast.dev", nil, true},
		"a definition of another group with our label":        {definitions, "holdfast-things.example.com", ours, false},
		"a role of a later version, with label and beginning": {clusterRole, "holdfast-later", ours, true},
		"a role with our beginning alone":                     {clusterRole, "holdfast-team", nil, false},
		"a role with our label alone":                         {clusterRole, "team", ours, false},
		"a preset's role":                                     {clusterRole, "holdfast-node-resources-ciliumnodes", map[string]string{aggregateLabel: "true"}, true},
		"a user's role that is collected":                     {clusterRole, "team-network", map[string]string{aggregateLabel: "true"}, false},
		"the manager's Lease":                                 {lease, "holdfast-manager", nil, true},
		"another application's Lease":                         {lease, "holdfast-1", nil, false},
		"the namespace of an installation":                    {namespaces, "holdfast-system", ours, true},
		"a namespace of another name that came with it":       {namespaces, "network-guard", ours, true},
		"a namespace without our label":                       {namespaces, "holdfast-system", nil, false},
		"kube-system, with any labels":                        {namespaces, "kube-system", ours, false},
		"default, with any labels":                            {namespaces, "default", ours, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: tc.name, Labels: tc.labels}}
			if got := isOurs(tc.gvk, object); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
