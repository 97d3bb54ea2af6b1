// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestMessagesSayWhatWasFoundAndWhatToDo(t *testing.T) {
	held := func(o *Object) { o.Finalizers = []string{finalizer} }
	for name, tc := range map[string]struct {
		policy   Policy
		object   Object
		evidence Evidence
		want     string
	}{
		"stale": {
			policy: required, object: object(stale), evidence: liveNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1", but carries UID "00000000-stale"; expected the live Node's UID only; ` +
				`the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z. ` +
				`Delete the object, or let its owner write that UID into its owner reference to v1 Node "node-1".`,
		},
		"stale beside the right one, held by a finalizer": {
			policy: required, object: with(object(right, stale), held), evidence: liveNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1", but carries UID "00000000-stale", UID "11111111-live"; ` +
				`expected the live Node's UID only; the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z. ` +
				`Delete the object (its finalizers "finalizers.acn.azure.com/dnc-operations" hold it), ` +
				`or let its owner write that UID into its owner reference to v1 Node "node-1".`,
		},
		"stale in an annotation, of a cluster-scoped object": {
			policy: annotated, evidence: read(Live, release.Known(Node{UID: liveUID})),
			object: with(object(stale), func(o *Object) { o.Kind, o.Namespace = "HostSubnet", "" }),
			want: `HostSubnet node-1 speaks for Node "node-1", but carries UID "00000000-stale"; expected the live Node's UID only; ` +
				`the live Node has UID "11111111-live". Delete the object, or let its owner write that UID into annotation "pod.network.openshift.io/node-uid".`,
		},
		"another name": {
			policy: required, object: object(right, elsewhere), evidence: liveNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1", but carries UID "22222222-other" of Node "node-2", UID "11111111-live"; ` +
				`expected no UID of another Node; the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z. ` +
				`Remove the references to other Nodes, or delete the object.`,
		},
		"another name, and no Node": {
			policy: required, object: object(elsewhere), evidence: missingNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1", but carries UID "22222222-other" of Node "node-2"; ` +
				`expected no UID of another Node; there is no Node of that name. Remove the references to other Nodes, or delete the object.`,
		},
		"no Node": {
			policy: required, object: with(object(stale), held), evidence: missingNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1" and carries UID "00000000-stale", but there is no Node of that name. ` +
				`Wait until the Node has registered and let the object's owner write its UID into its owner reference to v1 Node "node-1", ` +
				`or delete the object (its finalizers "finalizers.acn.azure.com/dnc-operations" hold it).`,
		},
		"no UID": {
			policy: required, object: object(), evidence: liveNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1", but carries no UID of a Node; policy "node-network-configs" requires one; ` +
				`the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z. ` +
				`Let the object's owner write that UID into its owner reference to v1 Node "node-1", or delete the object.`,
		},
		"right": {
			policy: required, object: object(right), evidence: liveNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1" and carries UID "11111111-live"; ` +
				`the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z.`,
		},
		"no UID and none required": {
			policy: ifPresent, object: object(), evidence: liveNode(),
			want: `NodeNetworkConfig kube-system/node-1 speaks for Node "node-1" and carries no UID of a Node; ` +
				`the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z.`,
		},
		"unreadable": {
			policy: required, object: object(stale), evidence: unreadNode(),
			want: `Could not tell whether NodeNetworkConfig kube-system/node-1 speaks for the live Node "node-1": ` +
				`the API server did not answer; try again once the Node can be read.`,
		},
		"a policy without a presence": {
			policy: Policy{Name: "half"}, object: object(stale), evidence: liveNode(),
			want: `Could not tell whether NodeNetworkConfig kube-system/node-1 speaks for the live Node "node-1": ` +
				`policy "half" has presence ""; expected Required or IfPresent; correct the policy.`,
		},
		"no node, no kind": {
			policy: required, object: with(object(), func(o *Object) { o.NodeName, o.Kind = "", "" }),
			want: `nodenetworkconfigs.acn.azure.com kube-system/node-1 speaks for no node.`,
		},
		"no name yet": {
			policy: required, object: with(object(), func(o *Object) { o.NodeName, o.Name = "", "" }),
			want: `NodeNetworkConfig without a name in namespace kube-system speaks for no node.`,
		},
		"nothing at all": {want: `The object speaks for no node.`},
	} {
		t.Run(name, func(t *testing.T) {
			message := Assess(tc.policy, tc.object, tc.evidence).Message
			if diff := cmp.Diff(tc.want, message); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkMessage(t, message)
		})
	}
}

func TestMessagesSayThatAWriteDropsTheUID(t *testing.T) {
	inAnnotation := ifPresent
	inAnnotation.Annotation = uidAnnotation
	held := func(o *Object) { o.Finalizers = []string{finalizer} }
	for name, tc := range map[string]struct {
		write    Write
		evidence Evidence
		want     string
	}{
		"a stale reference": {
			under(ifPresent, updating(object(stale), with(object(), held))), liveNode(),
			`NodeNetworkConfig kube-system/node-1 speaks for Node "node-1", but carried, until this write drops it and changes more, UID "00000000-stale"; ` +
				`expected the live Node's UID only; the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z. ` +
				`Delete the object (its finalizers "finalizers.acn.azure.com/dnc-operations" hold it), ` +
				`or let its owner write that UID into its owner reference to v1 Node "node-1". ` +
				`A write that only drops owner references is allowed.`,
		},
		"a stale annotation": {
			under(inAnnotation, updating(object(stale), object())), liveNode(),
			`NodeNetworkConfig kube-system/node-1 speaks for Node "node-1", but carried, until this write drops it, UID "00000000-stale"; ` +
				`expected the live Node's UID only; the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z. ` +
				`Delete the object, or let its owner write that UID into annotation "pod.network.openshift.io/node-uid".`,
		},
		"the live Node's": {
			under(ifPresent, updating(object(right), object())), liveNode(),
			`NodeNetworkConfig kube-system/node-1 speaks for Node "node-1" and carried, until this write drops it and changes more, UID "11111111-live"; ` +
				`the live Node has UID "11111111-live" since 2026-03-01T10:00:00Z. A write that only drops owner references is allowed.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			message := Judge(tc.write, tc.evidence).Message
			if diff := cmp.Diff(tc.want, message); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkMessage(t, message)
		})
	}
}

func TestMessagesRepeatLittleOfWhatOthersWrote(t *testing.T) {
	long := types.UID(strings.Repeat("ü", 10_000) + "\nforged line %!d")
	references := []Reference{right, right, right, right, right, right, {Name: nodeName, UID: long}}
	o := object(references...)
	o.Finalizers = slicesOf(100, strings.Repeat("f", 300))
	message := Assess(required, o, liveNode()).Message
	checkMessage(t, message)
	if limit := 1024; len([]rune(message)) > limit {
		t.Errorf("the message has %d characters, more than %d: %s", len([]rune(message)), limit, message)
	}
	for _, part := range []string{`carries UID "üüü`, "…", "3 more", "96 more"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not in %q", part, message)
		}
	}
	if diff := cmp.Diff([]Reference{right, right}, references[:2]); diff != "" {
		t.Errorf("the object was changed: %s", diff)
	}
}

func TestMessagesKeepALongNodeName(t *testing.T) {
	name := strings.Repeat("n", 253)
	o := with(object(Reference{Name: name, UID: staleUID}), func(o *Object) { o.NodeName = name })
	if message := Assess(required, o, liveNode()).Message; !strings.Contains(message, `Node "`+name+`"`) {
		t.Errorf("the node's name is not whole in %q", message)
	}
}

func slicesOf(count int, item string) []string {
	items := make([]string, count)
	for i := range items {
		items[i] = item
	}
	return items
}
