// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// A response is that of the machine that gave it, by its boot. Of two machines with one boot ID, either may have given it.
func TestI3AResponseIsOfTheMachineThatGaveIt(t *testing.T) {
	identity := func(machine, boot string) v1alpha1.NodeIdentity {
		return v1alpha1.NodeIdentity{UID: "u1", MachineID: machine, SystemUUID: machine, BootID: boot}
	}
	a, b, clone := identity("a", "boot-a"), identity("b", "boot-b"), identity("clone", "boot-a")
	gone := &v1alpha1.MachineGone{Since: metav1.NewTime(now.Add(-time.Minute))}
	object := func(machines ...v1alpha1.NodeIdentity) []v1alpha1.GuardedNode {
		o := v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "u1"}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "node"}}
		for _, m := range machines {
			o.Spec.Machines = append(o.Spec.Machines, v1alpha1.GuardedMachine{MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID, Gone: gone})
		}
		return []v1alpha1.GuardedNode{o}
	}
	reports := func(m v1alpha1.NodeIdentity) []release.Node {
		return []release.Node{{Machine: release.MachineOf(m), Name: "node"}}
	}
	for name, tc := range map[string]struct {
		known nodelife.Lifecycle
		want  []string
	}{
		"the Node":                      {nodelife.Lifecycle{Objects: object(a), Nodes: reports(a)}, []string{"boot-a responded"}},
		"its Node is gone":              {nodelife.Lifecycle{Objects: object(a)}, []string{"boot-a responded"}},
		"another machine took the Node": {nodelife.Lifecycle{Objects: object(b, a), Nodes: reports(b)}, []string{"boot-a responded", "boot-b"}},
		"both are gone":                 {nodelife.Lifecycle{Objects: object(b, a)}, []string{"boot-a responded", "boot-b"}},
		"a clone took the Node":         {nodelife.Lifecycle{Objects: object(clone, a), Nodes: reports(clone)}, []string{"boot-a", "boot-a"}},
		"and is gone too":               {nodelife.Lifecycle{Objects: object(clone, a)}, []string{"boot-a", "boot-a"}},
		"a machine that the object does not have yet": {nodelife.Lifecycle{Objects: object(a), Unwritten: []v1alpha1.NodeIdentity{clone}}, []string{"boot-a", "boot-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.known.Settings = release.Settings{NodeGoneDelay: 5 * time.Minute}
			var got []string
			for _, n := range Nodes(&tc.known, map[types.UID]Acknowledgement{"u1": {UID: "all", Generation: epoch, BootID: "boot-a"}}, now) {
				state := StateOf(&n, Query{UID: "all", Epoch: epoch}, settings(), now)
				got = append(got, fmt.Sprint(n.BootID, map[bool]string{true: " responded"}[state == Acknowledged]))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
