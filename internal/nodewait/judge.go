// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// judge returns the line of what is ready, or an obstacle: the Node's first, because the objects are compared with it.
func (w *waiter) judge(r rule, t target, objects []unstructured.Unstructured, n *corev1.Node) (string, error) {
	if o := w.judgeNode(n); o != nil {
		return "", o
	}
	speaking, err := w.speaking(r, t, objects)
	if err != nil {
		return "", err
	}
	if len(speaking) == 0 {
		return w.judgeMissing(t, n)
	}
	var ready []string
	var obstacles []*obstacle
	for _, object := range speaking {
		if finding, o := w.judgeObject(r, object, n); o != nil {
			obstacles = append(obstacles, o)
		} else {
			ready = append(ready, finding)
		}
	}
	switch more := len(obstacles) - 1; {
	case more < 0:
		return strings.Join(ready, "; "), nil
	case more > 0:
		return "", &obstacle{fmt.Sprintf("%s (and %d more of its objects are not ready)", obstacles[0].what, more), obstacles[0].advice}
	default:
		return "", obstacles[0]
	}
}

func (w *waiter) judgeNode(n *corev1.Node) *obstacle {
	switch {
	case n == nil:
		return &obstacle{"there is no Node " + w.Node,
			"Look at the kubelet of this machine: it registers the Node. If the Node has another name, correct --node or $NODE_NAME."}
	case n.DeletionTimestamp != nil:
		return &obstacle{fmt.Sprintf("Node %s (UID %s) is being deleted%s", w.Node, n.UID, held(n.Finalizers)),
			"Once it is deleted, the kubelet registers a new Node; a kubelet that runs already may have to be restarted."}
	case w.MachineID != "" && n.Status.NodeInfo.MachineID == "":
		return &obstacle{fmt.Sprintf("Node %s (UID %s) shows no machine ID yet", w.Node, n.UID),
			"Look at the kubelet of this machine: it writes status.nodeInfo.machineID."}
	case w.MachineID != "" && n.Status.NodeInfo.MachineID != w.MachineID:
		return &obstacle{
			fmt.Sprintf("Node %s (UID %s) shows machine %s, this machine is %s", w.Node, n.UID, n.Status.NodeInfo.MachineID, w.MachineID),
			"The Node is that of another machine. Look at the kubelet of this one: it has not written its status yet. " +
				"If the other machine will not come back, delete its Node."}
	default:
		return nil
	}
}

// speaking are the objects that speak for the node. One that cannot be read may be among them, so it is an obstacle.
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
		return o, &obstacle{fmt.Sprintf("cannot determine for which node %s speaks: %s", describe(u.GetKind(), u.GetNamespace(), u.GetName()), err),
			"Correct the object or the policy, or name the node's own object with --name."}
	case o.NodeName == w.Node || t.name == "":
		return o, nil
	case r.origin != "":
		return o, &obstacle{fmt.Sprintf("%s speaks for node %q by %s, not for %s", describe(o.Kind, o.Namespace, o.Name), o.NodeName, r.origin, w.Node),
			"Correct --name or --node, or the object."}
	}
	// Without a policy, the command line names the object.
	if w.UIDAnnotation != "" { // its reference has the object's name as the node's name
		for i := range o.References {
			o.References[i].Name = w.Node
		}
	}
	o.NodeName = w.Node
	return o, nil
}

func (w *waiter) judgeMissing(t target, n *corev1.Node) (string, error) {
	missing := fmt.Sprintf("there is no %s for node %s%s", t.Kind, w.Node, t.scope())
	if t.name != "" {
		missing = "there is no " + describe(t.Kind, t.namespace, t.name)
	}
	if w.IfMissing == Proceed {
		return fmt.Sprintf("%s, and it is not waited for (--if-missing=proceed); the live Node %s has UID %s", missing, w.Node, n.UID), nil
	}
	return "", &obstacle{missing, "Look at the component that creates it. If that is the agent that starts after this, use --if-missing=proceed."}
}

// judgeObject reports whether the object carries the live Node's UID and is not being deleted, and why.
func (w *waiter) judgeObject(r rule, o nodeidentity.Object, n *corev1.Node) (ready string, _ *obstacle) {
	a := nodeidentity.Assess(r.Policy(), o, nodeidentity.Evidence{
		Source: nodeidentity.Live,
		Node:   release.Known(nodeidentity.Node{UID: n.UID, CreationTimestamp: n.CreationTimestamp.Time}),
	})
	finding := strings.TrimSuffix(a.Message, ".")
	switch {
	case o.Deleting:
		advice := "Nothing to do: no finalizer holds it."
		if len(o.Finalizers) > 0 {
			advice = "Look at the controllers that these finalizers belong to: they have to remove them before a new object can be created."
		}
		return "", &obstacle{finding + "; it is being deleted" + held(o.Finalizers), advice}
	case a.Reason != v1alpha1.ReasonNodeUIDMatches:
		return "", &obstacle{finding, "Its owner has to delete it, or to write the UID of the live Node into it."}
	case len(o.References) == 0:
		finding += ", and " + r.origin + " accepts that (presence IfPresent)"
	}
	return finding, nil
}

func held(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return "; held by finalizers " + strings.Join(finalizers, ", ")
}

// describe is "KIND NAMESPACE/NAME", or "KIND NAME" for a cluster-scoped object.
func describe(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
