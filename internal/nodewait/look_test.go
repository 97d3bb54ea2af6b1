// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

type things = []*unstructured.Unstructured

// lookCase is a world and the result of a look: a line if it is ready, else how the obstacle begins and ends.
type lookCase struct {
	world   things
	options func(*Options)
	ready   string
	wait    string
	more    string
}

func (tc lookCase) run(t *testing.T) {
	t.Helper()
	ready, err := newWorld(t, tc.world...).look(tc.options)
	var o *obstacle
	if err != nil && !errors.As(err, &o) {
		t.Fatal(err)
	}
	var wait string
	if o != nil {
		wait = o.what
		if o.advice == "" {
			t.Error("there is no advice")
		}
	}
	if ready != tc.ready || (wait == "") != (tc.wait == "") || !strings.HasPrefix(wait, tc.wait) || !strings.HasSuffix(wait, tc.more) {
		t.Errorf("ready %q, waiting for %q; expected %q, %q … %q", ready, wait, tc.ready, tc.wait, tc.more)
	}
}

func TestI4OneObject(t *testing.T) {
	both := func(o *Options) { o.MachineID = thisMachine }
	proceed := func(o *Options) { o.IfMissing = Proceed }
	const ready = `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`
	cases := map[string]lookCase{
		"an object with the live Node's UID is ready": {
			world: things{liveNode(newUID), config(ownedBy(host, newUID))},
			ready: ready,
		},
		"an object of the Node before is not": {
			world: things{liveNode(newUID), config(ownedBy(host, oldUID))},
			wait:  `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`,
		},
		"what holds an object of the Node before is named": {
			world: things{liveNode(newUID), config(ownedBy(host, oldUID), deleting(dncFinalizer, "x/y"))},
			wait:  `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`,
			more:  "; it is being deleted; held by finalizers finalizers.acn.azure.com/dnc-operations, x/y",
		},
		"an object that is being deleted is not ready with any UID": {
			world: things{liveNode(newUID), config(ownedBy(host, newUID), deleting(dncFinalizer))},
			wait:  `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"; it is being deleted; held by finalizers finalizers.acn.azure.com/dnc-operations`,
		},
		"nothing holds an object": {
			world: things{liveNode(newUID), config(ownedBy(host, newUID), deleting())},
			wait:  `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"; it is being deleted`,
		},
		"one right reference does not make up for a stale one": {
			world: things{liveNode(newUID), config(ownedBy(host, newUID), ownedBy(host, oldUID))},
			wait:  `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries UID "1111", UID "2222"; expected the live Node's UID only; the live Node has UID "2222"`,
		},
		"an object without a reference": {
			world: things{liveNode(newUID), config()},
			wait:  `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries no UID of a Node; policy "command-line" requires one; the live Node has UID "2222"`,
		},
		"a reference to a Node of another name": {
			world: things{liveNode(newUID), config(ownedBy("aks-1", newUID))},
			wait:  `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries UID "2222" of Node "aks-1"; expected no UID of another Node`,
		},
		"no object": {
			world: things{liveNode(newUID)},
			wait:  "there is no NodeNetworkConfig kube-system/aks-0",
		},
		"no object, and the agent creates it": {
			world: things{liveNode(newUID)}, options: proceed,
			ready: "there is no NodeNetworkConfig kube-system/aks-0, and it is not waited for (--if-missing=proceed); the live Node aks-0 has UID 2222",
		},
		"an agent that creates its object does not read a stale one either": {
			world: things{liveNode(newUID), config(ownedBy(host, oldUID))}, options: proceed,
			wait: `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`,
		},
		"no Node": {
			world: things{config(ownedBy(host, oldUID))},
			wait:  "there is no Node aks-0",
		},
		"no Node, and the agent would create the object": {
			options: proceed,
			wait:    "there is no Node aks-0",
		},
		"a Node that is being deleted": {
			world: things{liveNode(oldUID, deleting("foregroundDeletion")), config(ownedBy(host, oldUID))},
			wait:  "Node aks-0 (UID 1111) is being deleted; held by finalizers foregroundDeletion",
		},
		"this machine's Node": {
			world: things{liveNode(newUID, machine(thisMachine)), config(ownedBy(host, newUID))}, options: both,
			ready: ready,
		},
		"another machine's Node": {
			world: things{liveNode(oldUID, machine(before)), config(ownedBy(host, oldUID))}, options: both,
			wait: "Node aks-0 (UID 1111) shows machine machine-old, this machine is machine-new",
		},
		"a Node that shows no machine": {
			world: things{liveNode(newUID), config(ownedBy(host, newUID))}, options: both,
			wait: "Node aks-0 (UID 2222) shows no machine ID yet",
		},
		"no machine ID was given": {
			world: things{liveNode(newUID, machine(before)), config(ownedBy(host, newUID))},
			ready: ready,
		},
		"an object of a name of its own": {
			world:   things{liveNode(newUID), config(ownedBy(host, newUID), func(u *unstructured.Unstructured) { u.SetName("cns") })},
			options: func(o *Options) { o.Name = "cns" },
			ready:   `NodeNetworkConfig kube-system/cns speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`,
		},
		"a resource without a version": {
			world:   things{liveNode(newUID), config(ownedBy(host, newUID))},
			options: func(o *Options) { o.Resource.Version = "" },
			ready:   ready,
		},
		"a version that is not served": {
			world:   things{liveNode(newUID), config(ownedBy(host, newUID))},
			options: func(o *Options) { o.Resource.Version = "v1" },
			wait:    "the API server serves no nodenetworkconfigs.acn.azure.com in version v1",
		},
		"a group that is not served": {
			options: func(o *Options) { o.Resource = schema.GroupVersionResource{Group: "acme.io", Resource: "nets"} },
			wait:    "the API server serves no nets.acme.io",
		},
	}
	for name, tc := range cases {
		t.Run(name, tc.run)
	}
}

func TestI4UIDInAnAnnotation(t *testing.T) {
	subnet := func(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return object(subnets, kinds[subnets], "", host, changes...)
	}
	annotation := func(o *Options) { o.Resource, o.UIDAnnotation, o.Namespace = subnets, hostSubnetNodeUID, "" }
	cases := map[string]lookCase{
		"the live UID": {
			world: things{liveNode(newUID), subnet(annotated(hostSubnetNodeUID, string(newUID)))}, options: annotation,
			ready: `HostSubnet aks-0 speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`,
		},
		"a stale UID, though the owner reference is right": {
			world: things{liveNode(newUID), subnet(ownedBy(host, newUID), annotated(hostSubnetNodeUID, string(oldUID)))}, options: annotation,
			wait: `HostSubnet aks-0 speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`,
		},
		"no annotation": {
			world: things{liveNode(newUID), subnet(ownedBy(host, newUID))}, options: annotation,
			wait: `HostSubnet aks-0 speaks for Node "aks-0", but carries no UID of a Node; policy "command-line" requires one; the live Node has UID "2222"`,
		},
		"an empty annotation": {
			world: things{liveNode(newUID), subnet(annotated(hostSubnetNodeUID, ""))}, options: annotation,
			wait: `HostSubnet aks-0 speaks for Node "aks-0", but carries UID ""; expected the live Node's UID only`,
		},
		"an object of a name of its own": {
			world: things{liveNode(newUID), subnet(annotated(hostSubnetNodeUID, string(newUID)), func(u *unstructured.Unstructured) { u.SetName("x") })},
			options: func(o *Options) {
				annotation(o)
				o.Name = "x"
			},
			ready: `HostSubnet x speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, tc.run)
	}
}

func TestI4ByPolicy(t *testing.T) {
	affinity := func(name string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return object(affinities, kinds[affinities], "", name, changes...)
	}
	at := func(node any) func(*unstructured.Unstructured) { return field(node, "spec", "node") }
	byPolicy := func(o *Options) { o.Policy, o.Resource, o.Namespace = "p", schema.GroupVersionResource{}, "" }
	named := func(name string) func(*Options) {
		return func(o *Options) {
			byPolicy(o)
			o.Name = name
		}
	}
	byField := policy(affinities, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.FieldPath, s.Resource.Versions = "spec.node", []string{"v1"}
	})
	byCEL := policy(affinities, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.Expression, s.Resource.Versions = "self.spec.node.startsWith('host:') ? self.spec.node.substring(5) : ''", []string{"v1"}
	})
	optional := policy(configs, func(s *v1alpha1.NodeResourcePolicySpec) { s.NodeUID.Presence = v1alpha1.UIDIfPresent })

	cases := map[string]lookCase{
		"no policy":                  {options: byPolicy, wait: "there is no NodeResourcePolicy p"},
		"a policy without a version": {options: byPolicy, world: things{policy(configs, nil)}, wait: "there is no Node aks-0"},
		"the policy's version is not served": {
			world:   things{policy(configs, func(s *v1alpha1.NodeResourcePolicySpec) { s.Resource.Versions = []string{"v1", "v1beta1"} })},
			options: byPolicy,
			wait:    "the API server serves no nodenetworkconfigs.acn.azure.com in version v1, v1beta1",
		},
		"a namespaced object is found in any namespace": {
			world: things{liveNode(newUID), policy(configs, nil), config(ownedBy(host, newUID)),
				config(ownedBy("aks-1", oldUID), func(u *unstructured.Unstructured) { u.SetName("aks-1") })}, options: byPolicy,
			ready: `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`,
		},
		"one in every namespace has to be right": {
			world: things{liveNode(newUID), policy(configs, nil), config(ownedBy(host, newUID)),
				config(ownedBy(host, oldUID), func(u *unstructured.Unstructured) { u.SetNamespace("other") })}, options: byPolicy,
			wait: `NodeNetworkConfig other/aks-0 speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`,
		},
		"of several, the others are counted": {
			world: things{liveNode(newUID), byField, affinity("c", at(host), ownedBy(host, newUID)),
				affinity("a", at(host)), affinity("b", at(host), ownedBy(host, oldUID))}, options: byPolicy,
			wait: `BlockAffinity a speaks for Node "aks-0", but carries no UID of a Node; policy "p" requires one; the live Node has UID "2222"`, more: " (and 1 more of its objects are not ready)",
		},
		"objects are found by a field, those of other nodes do not count": {
			world: things{liveNode(newUID), byField, affinity("b", at(host), ownedBy(host, newUID)), affinity("a", at(host), ownedBy(host, newUID)),
				affinity("c", at("aks-1"), ownedBy("aks-1", oldUID))}, options: byPolicy,
			ready: `BlockAffinity a speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"; BlockAffinity b speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`,
		},
		"no object names the node in its field": {
			world: things{liveNode(newUID), byField, affinity(host, at("aks-1"), ownedBy("aks-1", oldUID))}, options: byPolicy,
			wait: "there is no BlockAffinity for node aks-0",
		},
		"objects are found by an expression": {
			world: things{liveNode(newUID), byCEL, affinity("a", at("host:aks-0"), ownedBy(host, oldUID)), affinity("b", at("virtual:x"))}, options: byPolicy,
			wait: `BlockAffinity a speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`,
		},
		"a name makes one object count": {
			world: things{liveNode(newUID), byField, affinity("a", at(host), ownedBy(host, newUID)), affinity("b", at(int64(5)))}, options: named("a"),
			ready: `BlockAffinity a speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`,
		},
		"a name of another node's object": {
			world: things{liveNode(newUID), byField, affinity("a", at("aks-1"), ownedBy("aks-1", oldUID))}, options: named("a"),
			wait: `BlockAffinity a speaks for node "aks-1" by NodeResourcePolicy p, not for aks-0`,
		},
		"a name that the policy takes for the node's": {
			world: things{liveNode(newUID), policy(affinities, nil), affinity("a", ownedBy(host, newUID))}, options: named("a"),
			wait: `BlockAffinity a speaks for node "a" by NodeResourcePolicy p, not for aks-0`,
		},
		"no UID, which the policy accepts": {
			world: things{liveNode(newUID), optional, config()}, options: byPolicy,
			ready: `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0" and carries no UID of a Node; the live Node has UID "2222", and NodeResourcePolicy p accepts that (presence IfPresent)`,
		},
		"a stale UID is not accepted where none is": {
			world: things{liveNode(newUID), optional, config(ownedBy(host, oldUID))}, options: byPolicy,
			wait: `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`,
		},
		"no UID, but it is being deleted": {
			world: things{liveNode(newUID), optional, config(deleting("x/y"))}, options: byPolicy,
			wait: `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0" and carries no UID of a Node; the live Node has UID "2222"; it is being deleted; held by finalizers x/y`,
		},
		"a policy of fields that are not known": {
			world: things{liveNode(newUID), object(policies, "NodeResourcePolicy", "", "p", field("x", "spec"))}, options: byPolicy,
			wait: "NodeResourcePolicy p cannot be read: cannot restore struct from: string",
		},
	}
	for name, tc := range cases {
		t.Run(name, tc.run)
	}
}

func TestI5AnObjectThatCannotBeReadMayBeTheNodes(t *testing.T) {
	byField := policy(affinities, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.FieldPath, s.Resource.Versions = "spec.node", []string{"v1"}
	})
	broken := object(affinities, kinds[affinities], "", "b", field(int64(5), "spec", "node"))
	own := object(affinities, kinds[affinities], "", "a", field(host, "spec", "node"), ownedBy(host, newUID))
	_, err := newWorld(t, byField, liveNode(newUID), own, broken).look(func(o *Options) { o.Policy, o.Namespace = "p", "" })
	requireObstacle(t, err, "cannot determine for which node BlockAffinity b speaks: ")
}

func TestAPolicyThatCannotBeUsedSaysWhy(t *testing.T) {
	broken := policy(configs, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.Expression, s.Resource.Versions = "self.spec.", []string{"v1alpha"}
	})
	_, err := newWorld(t, broken).look(func(o *Options) { o.Policy = "p" })
	requireObstacle(t, err, "NodeResourcePolicy p cannot be used: spec.nodeName.expression: Invalid value: \"self.spec.\"")
}

// TestI4ANodeReplacedDuringALookIsSeen: the Node is read last. In the other order the old Node would vouch for its object.
func TestI4ANodeReplacedDuringALookIsSeen(t *testing.T) {
	for resource, policyGiven := range map[string]bool{"get": false, "list": true} {
		t.Run(resource, func(t *testing.T) {
			w := newWorld(t, liveNode(oldUID), config(ownedBy(host, oldUID)), policy(configs, nil))
			replaced := false
			w.client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if a.GetResource() == configs && !replaced {
					replaced = true
					w.put(liveNode(newUID))
				}
				return false, nil, nil
			})
			_, err := w.look(func(o *Options) {
				if policyGiven {
					o.Policy, o.Namespace = "p", ""
				}
			})
			requireObstacle(t, err, `carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222"`)
		})
	}
}

func TestAMistakeIsNotWaitedFor(t *testing.T) {
	cases := map[string]func(*Options){
		"--namespace is kube-system, but hostsubnets.network.openshift.io are cluster-scoped: leave it out": func(o *Options) { o.Resource = subnets },
		"leases.coordination.k8s.io cannot be waited for: spec.resource: Invalid value: Leases cannot be guarded: their owner is set once, and a refused renewal makes the node NotReady": func(o *Options) {
			o.Resource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
		},
	}
	for want, change := range cases {
		err := Until(t.Context(), newWorld(t, liveNode(newUID)).options(change))
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want a mistake: %s", err, want)
		}
	}
}
