// SPDX-License-Identifier: Apache-2.0

package nodelife_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// confirmed is the state of machine a of Node u1, which has been gone for an hour by recent live reads.
func confirmed(change ...func(*nodelife.Lifecycle)) nodelife.Lifecycle {
	l := nodelife.Lifecycle{Settings: settings, Objects: []v1alpha1.GuardedNode{object("u1", entry(machine("u1", "a"), gone(long)))}, Acquired: now.Add(-2 * time.Hour),
		Read: now.Add(-time.Second), Kubelets: map[string]nodelife.Kubelet{"node": {}}}
	for _, c := range change {
		c(&l)
	}
	return l
}

func TestSinceWhenAMachineIsGone(t *testing.T) {
	a, b := machine("u1", "a"), machine("u1", "b")
	objects := func(o ...v1alpha1.GuardedNode) func(*nodelife.Lifecycle) {
		return func(l *nodelife.Lifecycle) { l.Objects = o }
	}
	nodes := func(n ...release.Node) func(*nodelife.Lifecycle) {
		return func(l *nodelife.Lifecycle) { l.Nodes = n }
	}
	full := object("u2")
	for i := range nodelife.MaxMachines {
		full.Spec.Machines = append(full.Spec.Machines, entry(machine("u2", fmt.Sprint(i)), gone(long)))
	}
	full.Spec.Machines[3] = entry(a, gone(long))
	renewed := metav1.NewMicroTime(now)
	const whole = 5 * time.Minute
	cases := map[string]struct {
		known    nodelife.Lifecycle
		machines []v1alpha1.NodeIdentity
		left     time.Duration
		liveness string
	}{
		"it is gone for the delay":                                           {known: confirmed()},
		"not for the delay":                                                  {known: confirmed(objects(object("u1", entry(a, gone(ago(4*time.Minute)))))), left: time.Minute},
		"a machine that no object names begins now":                          {known: confirmed(objects()), left: whole},
		"one that its object has as reported begins now":                     {known: confirmed(objects(object("u1", entry(a)))), left: whole},
		"one of which a record names the Node UID alone is gone with it":     {known: confirmed(), machines: []v1alpha1.NodeIdentity{{UID: "u1"}}},
		"R1: it is every machine of the UID":                                 {known: confirmed(objects(object("u1", entry(b), entry(a, gone(long))))), machines: []v1alpha1.NodeIdentity{{UID: "u1"}}, left: whole},
		"R1: the other machine of the UID is reported":                       {known: confirmed(objects(object("u1", entry(b), entry(a, gone(long)))))},
		"R1: another object says that it is gone for a moment":               {known: confirmed(objects(object("u1", entry(a, gone(long))), object("u2", entry(a, gone(ago(time.Minute)))))), left: 4 * time.Minute},
		"R1: another object says that it is reported":                        {known: confirmed(objects(object("u1", entry(a, gone(long))), object("u2", entry(a)))), left: whole},
		"R1: so does one that has it in another boot":                        {known: confirmed(objects(object("u1", entry(a, gone(long))), object("u2", entry(rebooted(a))))), left: whole},
		"R1: another object may lack a further machine":                      {known: confirmed(objects(object("u1", entry(a, gone(long))), full)), left: whole},
		"R1: another object about another machine says nothing":              {known: confirmed(objects(object("u1", entry(a, gone(long))), object("u2", entry(b))))},
		"R1: all of several machines have to be gone":                        {known: confirmed(), machines: []v1alpha1.NodeIdentity{a, b}, left: whole},
		"R1: its report is not written yet":                                  {known: confirmed(func(l *nodelife.Lifecycle) { l.Unwritten = []v1alpha1.NodeIdentity{machine("u3", "a")} }), left: whole},
		"R2: a Node reports it, which no object says":                        {known: confirmed(nodes(node("other", machine("u3", "a")))), left: whole, liveness: "registered as node other"},
		"R2: another Node of the name reports another machine":               {known: confirmed(nodes(node("node", machine("u3", "b"))))},
		"R2: nothing was read live":                                          {known: confirmed(func(l *nodelife.Lifecycle) { l.Read = time.Time{} }), left: nodelife.ConfirmAgain},
		"R2: it was read before the delay was over":                          {known: confirmed(objects(object("u1", entry(a, gone(ago(whole+time.Second))))), func(l *nodelife.Lifecycle) { l.Read = now.Add(-2 * time.Second) }), left: nodelife.ConfirmAgain},
		"R2: it was read too long ago":                                       {known: confirmed(func(l *nodelife.Lifecycle) { l.Read = now.Add(-nodelife.Reuse) }), left: nodelife.ConfirmAgain},
		"R2: the kubelet was not read":                                       {known: confirmed(func(l *nodelife.Lifecycle) { l.Kubelets = nil }), left: nodelife.ConfirmAgain},
		"R2: the kubelet is that of the Node that has the name":              {known: confirmed(func(l *nodelife.Lifecycle) { l.Kubelets = nil }, nodes(node("node", machine("u3", "b"))))},
		"R2: the kubelet has written":                                        {known: confirmed(func(l *nodelife.Lifecycle) { l.Kubelets["node"] = nodelife.Kubelet{LeaseRenewed: &renewed} }), left: whole, liveness: "renewed the node's Lease"},
		"R3: the observation began after it was gone":                        {known: confirmed(func(l *nodelife.Lifecycle) { l.Acquired = now.Add(-4 * time.Minute) }), left: time.Minute},
		"R3: there is no observation":                                        {known: confirmed(func(l *nodelife.Lifecycle) { l.Acquired = time.Time{} }), left: whole},
		"without a delay it has to be confirmed too":                         {known: confirmed(func(l *nodelife.Lifecycle) { l.Settings.NodeGoneDelay, l.Nodes = 0, []release.Node{node("other", a)} }), left: nodelife.ConfirmAgain, liveness: "registered as node other"},
		"nothing is known of no machine":                                     {known: confirmed(), machines: []v1alpha1.NodeIdentity{}, left: whole},
		"what began it again is told":                                        {known: confirmed(objects(object("u1", entry(a, gone(ago(time.Minute)), func(e *v1alpha1.GuardedMachine) { e.Gone.Liveness = "it wrote" })))), left: 4 * time.Minute, liveness: "it wrote"},
		"R1: a Node of which nothing is known is no Node of another UID":     {known: confirmed(nodes(node("other", v1alpha1.NodeIdentity{UID: "u4"})))},
		"R1: and may be the machine of which a record names the UID it has":  {known: confirmed(nodes(node("other", v1alpha1.NodeIdentity{UID: "u1"}))), machines: []v1alpha1.NodeIdentity{{UID: "u1"}}, left: whole, liveness: "registered"},
		"R3: a machine that was gone before the observation began, for long": {known: confirmed(func(l *nodelife.Lifecycle) { l.Acquired = now.Add(-6 * time.Minute) })},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.machines == nil {
				c.machines = []v1alpha1.NodeIdentity{a}
			}
			got := c.known.Gone(c.machines, now)
			if left := max(0, got.Since.Add(c.known.Settings.NodeGoneDelay).Sub(now)).Round(time.Second); left != c.left {
				t.Errorf("%s is left of the delay, want %s", left, c.left)
			}
			if (got.Liveness == "") != (c.liveness == "") || !strings.Contains(got.Liveness, c.liveness) {
				t.Errorf("liveness %q, want %q", got.Liveness, c.liveness)
			}
		})
	}
}
