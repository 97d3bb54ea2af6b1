// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// judge gives the line of what is ready, or the obstacle: the Node's first, because an object is compared with it.
func (w *waiter) judge(r rule, t target, objects []unstructured.Unstructured, n release.Fact[node]) (string, error) {
	if o := w.judgeNode(n); o != nil {
		return "", o
	}
	speaking, err := w.speaking(r, t, objects)
	if err != nil {
		return "", err
	}
	if len(speaking) == 0 {
		return w.judgeMissing(t, n.Get())
	}
	var obstacles []*obstacle
	for _, object := range speaking {
		if o := w.judgeObject(r, object, n.Get()); o != nil {
			obstacles = append(obstacles, o)
		}
	}
	switch more := len(obstacles) - 1; {
	case more < 0:
		return w.readyLine(r, speaking, n.Get()), nil
	case more > 0:
		return "", &obstacle{fmt.Sprintf("%s (and %d more of its objects are not ready)", obstacles[0].what, more), obstacles[0].advice}
	default:
		return "", obstacles[0]
	}
}

func (w *waiter) judgeNode(n release.Fact[node]) *obstacle {
	switch {
	case !n.IsKnown():
		return &obstacle{"there is no Node " + w.Node,
			"Look at the kubelet of this machine: it registers the Node. If the Node has another name, correct --node or $NODE_NAME."}
	case n.Get().deleting:
		return &obstacle{fmt.Sprintf("Node %s (UID %s) is being deleted%s", w.Node, n.Get().uid, held(n.Get().finalizers)),
			"When it is gone, the kubelet registers a new Node; a kubelet that runs already may have to be restarted."}
	case w.MachineID != "" && n.Get().machineID == "":
		return &obstacle{fmt.Sprintf("Node %s (UID %s) shows no machine ID yet", w.Node, n.Get().uid),
			"Look at the kubelet of this machine: it writes status.nodeInfo.machineID."}
	case w.MachineID != "" && n.Get().machineID != w.MachineID:
		return &obstacle{
			fmt.Sprintf("Node %s (UID %s) shows machine %s, this machine is %s", w.Node, n.Get().uid, n.Get().machineID, w.MachineID),
			"The Node is that of another machine. Look at the kubelet of this one: it has not written its status yet. " +
				"If the other machine is gone for good, delete its Node."}
	default:
		return nil
	}
}

// speaking picks the objects that speak for the node. One that cannot be read may be the node's, so it is waited for.
func (w *waiter) speaking(r rule, t target, objects []unstructured.Unstructured) ([]nodeidentity.Object, error) {
	var speaking []nodeidentity.Object
	for i := range objects {
		o, err := w.convert(r, t, &objects[i])
		if err != nil {
			return nil, err
		}
		if o.NodeName == w.Node {
			speaking = append(speaking, o)
		}
	}
	slices.SortFunc(speaking, func(a, b nodeidentity.Object) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return speaking, nil
}

func (w *waiter) convert(r rule, t target, u *unstructured.Unstructured) (nodeidentity.Object, error) {
	o, err := r.Object(u)
	switch {
	case err != nil:
		return o, &obstacle{fmt.Sprintf("cannot tell for which node %s speaks: %s", describe(u.GetKind(), u.GetNamespace(), u.GetName()), err),
			"Correct the object or the policy, or name the node's own object with --name."}
	case o.NodeName == w.Node || t.name == "":
		return o, nil
	case r.origin != "":
		return o, &obstacle{fmt.Sprintf("%s speaks for node %q by %s, not for %s", describe(o.Kind, o.Namespace, o.Name), o.NodeName, r.origin, w.Node),
			"Correct --name or --node, or the object."}
	}
	// Without a policy the command line says whose object it is.
	if w.UIDAnnotation != "" { // the UID goes with the node's name, which was taken from the object's
		for i := range o.References {
			o.References[i].Name = w.Node
		}
	}
	o.NodeName = w.Node
	return o, nil
}

func (w *waiter) judgeMissing(t target, n node) (string, error) {
	missing := fmt.Sprintf("there is no %s for node %s%s", t.Kind, w.Node, t.request("list").scope())
	if t.name != "" {
		missing = "there is no " + describe(t.Kind, t.namespace, t.name)
	}
	if w.IfMissing == Proceed {
		return fmt.Sprintf("%s, and it is not waited for (--if-missing=proceed); the live Node %s has UID %s", missing, w.Node, n.uid), nil
	}
	return "", &obstacle{missing, "Look at who creates it. If that is the agent that starts after this, use --if-missing=proceed."}
}

func (w *waiter) judgeObject(r rule, o nodeidentity.Object, n node) *obstacle {
	assessment := nodeidentity.Assess(r.Policy(), o, nodeidentity.Evidence{
		Source: nodeidentity.Live,
		Node:   release.Known(nodeidentity.Node{UID: n.uid, CreationTimestamp: n.created}),
	})
	found := w.compare(r, o, n, assessment)
	if !o.Deleting {
		return found
	}
	what := describe(o.Kind, o.Namespace, o.Name) + " is being deleted"
	if found != nil {
		what = found.what + "; it is being deleted"
	}
	return &obstacle{what + held(o.Finalizers), adviceDeleting(o)}
}

// compare says how the object differs from one of the live Node.
func (w *waiter) compare(r rule, o nodeidentity.Object, n node, a nodeidentity.Assessment) *obstacle {
	name := describe(o.Kind, o.Namespace, o.Name)
	advice := "Whoever owns it has to delete it, or to write the UID of the live Node into it."
	switch a.Reason {
	case v1alpha1.ReasonNodeUIDMatches:
		return nil
	case v1alpha1.ReasonStaleNodeUID:
		return &obstacle{fmt.Sprintf("%s carries Node UID %s, the live Node %s has %s", name, cmp.Or(a.FoundUID, "(empty)"), w.Node, n.uid), advice}
	case v1alpha1.ReasonNodeUIDMissing:
		where := "no owner reference to a v1 Node"
		if key := r.Policy().Annotation; key != "" {
			where = "no annotation " + key
		}
		return &obstacle{fmt.Sprintf("%s carries no Node UID (%s), the live Node %s has %s", name, where, w.Node, n.uid), advice}
	case v1alpha1.ReasonNodeNameMismatch:
		return &obstacle{fmt.Sprintf("%s has owner references to %s, but speaks for node %s", name, strangers(o, w.Node), w.Node), advice}
	default:
		return &obstacle{fmt.Sprintf("%s: %s: %s", name, a.Reason, a.Message), advice}
	}
}

// strangers names the Nodes of other names that the object refers to.
func strangers(o nodeidentity.Object, own string) string {
	var names []string
	for _, reference := range o.References {
		if reference.Name != own {
			names = append(names, fmt.Sprintf("Node %s (UID %s)", reference.Name, reference.UID))
		}
	}
	return strings.Join(names, ", ")
}

func adviceDeleting(o nodeidentity.Object) string {
	if len(o.Finalizers) == 0 {
		return "Look again in a moment: nothing holds it."
	}
	return "Look at the controllers that these finalizers belong to: they have to take them off before a new object can be made."
}

func held(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return "; held by finalizers " + strings.Join(finalizers, ", ")
}

func (w *waiter) readyLine(r rule, objects []nodeidentity.Object, n node) string {
	var names, without []string
	for _, o := range objects {
		name := describe(o.Kind, o.Namespace, o.Name)
		if len(o.References) == 0 {
			without = append(without, name)
		} else {
			names = append(names, name)
		}
	}
	var parts []string
	if len(names) > 0 {
		parts = append(parts, fmt.Sprintf("%s: UID %s of the live Node %s", strings.Join(names, ", "), n.uid, w.Node))
	}
	if len(without) > 0 {
		parts = append(parts, fmt.Sprintf("%s: no Node UID, which %s accepts (presence IfPresent); the live Node %s has %s",
			strings.Join(without, ", "), r.origin, w.Node, n.uid))
	}
	return strings.Join(parts, "; ")
}

// describe is "KIND NAMESPACE/NAME", or "KIND NAME" for a cluster-scoped object.
func describe(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
