// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The message is the only part of the condition that names the node.
func TestAWaitForANodeNamesIt(t *testing.T) {
	const name = "node-b"
	cases := map[string]func(Node) Observation{
		"a pod that is terminating": func(n Node) Observation { return terminating(node(n)) },
		"a pod that holds nothing":  func(n Node) Observation { return terminating(noEntries, node(n)) },
		"a completed Job":           func(n Node) Observation { return terminating(notDeleting, ended(EndingCompleted, longAgo), node(n)) },
		"an end by another machine": func(n Node) Observation {
			n.Machine, n.Registered = registered, longAgo.Add(time.Hour)
			return terminating(endedBy(EndingFinished, replaced), node(n))
		},
		"an agent that was queried": func(n Node) Observation {
			return terminating(agent, sandboxes(sandbox("s1", queried(newQuery(madeLongAgo), Absent[Response]()))), node(n))
		},
	}
	for title, observed := range cases {
		t.Run(title, func(t *testing.T) {
			for _, tc := range []struct{ name, want string }{{name, "node node-b is not Ready"}, {"", "the node is not Ready"}} {
				d := Decide(observed(Node{Machine: machine, Name: tc.name}), now)
				if d.Reason != v1alpha1.ReasonNodeUnreachable || !strings.Contains(d.Message, tc.want) {
					t.Errorf("%s: %q, want %s and %q", d.Reason, d.Message, v1alpha1.ReasonNodeUnreachable, tc.want)
				}
			}
		})
	}
}

// TestAWaitForAMachineThatIsAliveSaysWhy: a machine that was registered under another name restarts the delay at every look.
func TestAWaitForAMachineThatIsAliveSaysWhy(t *testing.T) {
	for title, change := range map[string]func(*Observation){"with an entry": func(*Observation) {}, "without one": noEntries} {
		d := Decide(terminating(change, func(o *Observation) {
			o.Node, o.NodeGoneSince, o.SignOfLife = Absent[Node](), Known(now), "its machine is registered as node b"
		}), now)
		if d.Row != RowNodeDeleted || d.Action != Wait || !strings.Contains(d.Message, "registered as node b") {
			t.Errorf("%s: %s, %s: %q", title, d.Row, d.Action, d.Message)
		}
	}
}

// TestAWaitAdvisesOnlyWhatTheKubeletCanReport: below 1.37 a kubelet does not distinguish a pod without a sandbox from one whose sandbox is not ready.
func TestAWaitAdvisesOnlyWhatTheKubeletCanReport(t *testing.T) {
	const restart, cannot = "restart that kubelet", "a kubelet of version v1.36.3 does not report that a pod has no sandbox"
	waits := map[string]func(*Observation){
		"a pod that PodGC ended":             ended(EndingForeign, longAgo),
		"a pod that another machine ended":   endedBy(EndingFinished, replaced),
		"a pod that was rejected":            ended(EndingRejected, longAgo),
		"a pod that is rejected and is kept": func(o *Observation) { notDeleting(o); ended(EndingRejected, longAgo)(o) },
	}
	for title, change := range waits {
		t.Run(title, func(t *testing.T) {
			for _, tc := range []struct{ version, want, not string }{{"v1.36.3", cannot, restart}, {"v1.37.0+k3s1", restart, cannot}, {"", restart, cannot}} {
				d := Decide(terminating(change, node(Node{Machine: machine, Ready: true, Registered: longAgo.Add(time.Hour), Kubelet: tc.version})), now)
				if d.Action != Wait || !strings.Contains(d.Message, tc.want) || strings.Contains(d.Message, tc.not) {
					t.Errorf("version %q: %s %q, want %q in it and not %q", tc.version, d.Action, d.Message, tc.want, tc.not)
				}
			}
		})
	}
}
