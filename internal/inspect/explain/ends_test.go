// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestATaintEndsTheWaitForAnAgent: with agents the taint alone gives nothing away, so its end is that of a query without a response.
func TestATaintEndsTheWaitForAnAgent(t *testing.T) {
	const noResponse = "and its agent, queried once more, does not respond"
	tainted := func(f *Facts) {
		n := theNode(corev1.ConditionUnknown)
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		f.Node = release.Known(n)
	}
	cases := map[string]struct {
		change  func(*Facts)
		want    []string
		wantNot []string
	}{
		"a node whose agent reported that the sandbox is not gone, and is not Ready since": {
			change: func(f *Facts) {
				queried(f, v1alpha1.VerdictDoNotRelease, 3)
				f.Node = release.Known(theNode(corev1.ConditionUnknown))
			},
			want: []string{noResponse, "the node's agent reports"}, wantNot: []string{"time: in", "the Node object is deleted"},
		},
		"a node that was queried and is not Ready": {
			change: func(f *Facts) { queried(f, "", 0); f.Node = release.Known(theNode(corev1.ConditionUnknown)) },
			want:   []string{noResponse},
		},
		"an address in conflict on such a node takes the other's end too": {
			change: func(f *Facts) {
				queried(f, "", 0)
				f.Node, f.Records = release.Known(theNode(corev1.ConditionUnknown)), release.Known([]v1alpha1.IPAllocation{rival()})
			},
			want: []string{noResponse + " for delays.releaseDelay" + otherGone},
		},
		"a node that is tainted already is not told to be tainted: time ends it": {
			change: func(f *Facts) { queried(f, "", 0); underTaint(f); tainted(f) },
			want:   []string{"time: in 50s"}, wantNot: []string{isTainted},
		},
		"a node that is tainted already, and whose agent responds all the same": {
			change: func(f *Facts) {
				queried(f, v1alpha1.VerdictDoNotRelease, 3)
				underTaint(f)
				tainted(f)
			},
			want: []string{"the node's agent reports"}, wantNot: []string{isTainted, "time: in"},
		},
		"a Ready node is not told to be tainted": {
			change: func(f *Facts) { queried(f, "", 0) },
			want:   []string{"the node's agent reports"}, wantNot: []string{isTainted},
		},
		"without agents the taint alone is enough": {
			change: func(*Facts) {}, want: []string{isTainted}, wantNot: []string{noResponse},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := heldFacts()
			tc.change(f)
			got := Explain(f, now).Ends
			has := func(part string) bool {
				return slices.ContainsFunc(got, func(e End) bool { return strings.Contains(e.What, part) })
			}
			for _, part := range tc.want {
				if !has(part) {
					t.Errorf("%q is not among what would end it: %v", part, got)
				}
			}
			for _, part := range tc.wantNot {
				if has(part) {
					t.Errorf("%q would not end it: %v", part, got)
				}
			}
		})
	}
}

// TestATaintReleasesWithoutAResponse: what is told to follow from the taint is what the table does once the wait for a response is over, not before.
func TestATaintReleasesWithoutAResponse(t *testing.T) {
	f := heldFacts()
	queried(f, "", 0)
	f.Node = release.Known(theNode(corev1.ConditionUnknown))
	o := f.observation(f.entries(), now)
	at := now
	if !taintWithoutResponse(&o, &at) {
		t.Fatal("a node without a response of its agent cannot be tainted")
	}
	if d := release.Decide(o, at.Add(-time.Second)); d.Action != release.Wait {
		t.Errorf("decided %s a second before the wait is over, want Wait", d.Action)
	}
	if d := release.Decide(o, at); d.Action != release.Release || d.Reason != v1alpha1.ReasonNodeOutOfService {
		t.Errorf("decided %s, %s at the end of the wait, want Release, NodeOutOfService", d.Action, d.Reason)
	}
}
