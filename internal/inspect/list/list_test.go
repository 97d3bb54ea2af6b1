// SPDX-License-Identifier: Apache-2.0

package list

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func record(name, namespace string, state v1alpha1.AllocationState, reason v1alpha1.Reason, ago time.Duration, ips ...string) v1alpha1.IPAllocation {
	r := v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: namespace, PodName: "web-0", NodeName: "node-a", IPs: ips}}
	r.Status.State = state
	if reason != "" {
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReleasedCondition, Reason: string(reason), Message: "because", LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	}
	return r
}

// unexplained is the record of an orphan as the API server gives it before Holdfast has written a status.
func unexplained(name, namespace string, ago time.Duration, ips ...string) v1alpha1.IPAllocation {
	r := record(name, namespace, v1alpha1.StateInUse, "", 0, ips...)
	r.CreationTimestamp = metav1.NewTime(now.Add(-ago))
	return r
}

func shown(t *testing.T, r *Records) string {
	t.Helper()
	var text strings.Builder
	if err := inspect.Write(&text, r.Tables(now), false); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestList(t *testing.T) {
	orphan := v1alpha1.OrphanPrefix + strings.Repeat("4fe2c1d0b3a5", 5)
	records := []v1alpha1.IPAllocation{
		record("u1", "apps", "", "", 0, "192.0.2.1", "198.51.100.1"),
		record("u2", "apps", v1alpha1.StateHeld, v1alpha1.ReasonNodeUnreachable, time.Minute, "192.0.2.2"),
		record(orphan, "gone", v1alpha1.StateOrphaned, v1alpha1.ReasonOwnerUnknown, time.Hour, "192.0.2.3"),
		unexplained("orphan-5", "gone", 2*time.Minute, "192.0.2.5"),
		record("u3", "other", v1alpha1.StateInUse, v1alpha1.ReasonPodInUse, time.Hour, "192.0.2.4"),
	}
	for name, tc := range map[string]struct {
		namespace string
		held      bool
		want      string
		attention bool
	}{
		"all of them": {want: `RECORD                 POD           NODE     IPS                      STATE      REASON            FOR
u1                     apps/web-0    node-a   192.0.2.1,198.51.100.1   InUse      -                 -
u2                     apps/web-0    node-a   192.0.2.2                Held       NodeUnreachable   60s
orphan-4fe2c1d0b3a54   gone/web-0    node-a   192.0.2.3                Orphaned   OwnerUnknown      60m
orphan-5               gone/web-0    node-a   192.0.2.5                Orphaned   -                 2m
u3                     other/web-0   node-a   192.0.2.4                InUse      -                 -
`},
		"what is held, the longest first": {held: true, attention: true, want: `RECORD                 POD          NODE     IPS         STATE      REASON            FOR
orphan-4fe2c1d0b3a54   gone/web-0   node-a   192.0.2.3   Orphaned   OwnerUnknown      60m
orphan-5               gone/web-0   node-a   192.0.2.5   Orphaned   -                 2m
u2                     apps/web-0   node-a   192.0.2.2   Held       NodeUnreachable   60s
`},
		"one namespace":                {namespace: "other", want: "RECORD   POD           NODE     IPS         STATE   REASON   FOR\nu3       other/web-0   node-a   192.0.2.4   InUse   -        -\n"},
		"nothing is held in it":        {namespace: "other", held: true, want: "No record is held.\n"},
		"a namespace without a record": {namespace: "none", want: "There are no records.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			listed := List(records, tc.namespace, tc.held)
			if diff := cmp.Diff(tc.want, shown(t, listed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if listed.Attention() != tc.attention {
				t.Errorf("attention %v, want %v", listed.Attention(), tc.attention)
			}
		})
	}
}
