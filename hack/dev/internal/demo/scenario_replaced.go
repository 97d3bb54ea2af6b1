// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/acn"
	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// replacedNode is S2: a node-scoped object that outlives its node.
func replacedNode() scenario {
	return scenario{
		name:  "node-replaced-under-its-name",
		title: "A node is replaced under its name before its NodeNetworkConfig is gone",
		harm: "A machine dies, and another one takes its name. The garbage collector is slow, so the NodeNetworkConfig of the old Node is " +
			"still there: CNS on the new machine reads it by name and hands out its prefix. Only then the object is deleted, DNC takes the " +
			"prefix back and gives it to the next node: pods of two live nodes have the same addresses (the cause is that of Azure " +
			"CNS #4210; there the prefix came back to the same node, and no pod could start on it).",
		guard: "an object speaks only for the live Node whose UID its owner reference carries. Admission refuses DNC's write to the old object, " +
			"the sweep deletes that object, and wait-node-resource, the init container of CNS, waits for one of the live Node. The new " +
			"machine starts with a prefix of its own.",
		play:    playReplacedNode,
		overlay: true,
	}
}

func playReplacedNode(ctx context.Context, s *stage) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o, err := s.startOverlay(ctx)
	if err != nil {
		return err
	}
	pod, err := o.firstMachine(ctx)
	if err != nil {
		return err
	}
	collect, err := o.slowCollector(ctx)
	if err != nil {
		return err
	}
	old, err := o.replaceFirst(ctx)
	if err != nil {
		return err
	}
	if s.guard {
		err = o.replacementWaits(ctx, pod, old, collect)
	} else {
		err = o.replacementInherits(ctx, pod, old, collect)
	}
	if err != nil {
		return err
	}
	if err := o.nextNodeJoins(ctx); err != nil {
		return err
	}
	return o.countLost(ctx)
}

// oldPod is a pod that ran on the first machine.
type oldPod struct {
	*corev1.Pod
	sandbox string
}

// firstMachine brings up the first node with a pod.
func (o *overlay) firstMachine(ctx context.Context) (oldPod, error) {
	if err := o.join(ctx, o.first); err != nil {
		return oldPod{}, err
	}
	pod, address, err := o.startPod(ctx, "one", o.first, nil)
	if err != nil {
		return oldPod{}, err
	}
	sandbox, _ := o.sandboxOf(pod.UID)
	o.note("pod one runs on %s with %s", o.first, address)
	return oldPod{pod, sandbox.ID}, nil
}

// replaceFirst replaces the machine, as an administrator does, and returns the UID of the old Node.
func (o *overlay) replaceFirst(ctx context.Context) (types.UID, error) {
	node := &corev1.Node{}
	if err := o.client.Get(ctx, client.ObjectKey{Name: o.first}, node); err != nil {
		return "", fmt.Errorf("reading node %s: %w", o.first, err)
	}
	old := node.UID
	if err := o.cluster.SimNode().Do(ctx, simnodeapi.EventPowerOff, o.first); err != nil {
		return "", err
	}
	if err := o.client.Delete(ctx, node); err != nil {
		return "", fmt.Errorf("deleting node %s: %w", o.first, err)
	}
	o.note("the machine of %s dies, and its Node is deleted (UID %s); the garbage collector is slow", o.first, old)
	if err := o.programTheDead(ctx, old); err != nil {
		return "", err
	}
	if err := o.cluster.SimNode().Do(ctx, simnodeapi.EventReplace, o.first); err != nil {
		return "", err
	}
	err := o.await(ctx, "a new Node "+o.first, nodeTimeout, func(ctx context.Context) (bool, string, error) {
		err := o.client.Get(ctx, client.ObjectKey{Name: o.first}, node)
		return err == nil && node.UID != old, "the old one", err
	})
	if err == nil {
		o.note("another machine registers as %s: Node UID %s", o.first, node.UID)
	}
	return old, err
}

// programTheDead has DNC write the object that the dead machine has left. With the guard that is refused, or the run
// shows nothing.
func (o *overlay) programTheDead(ctx context.Context, old types.UID) error {
	o.dnc.Program(o.first)
	if !o.guard {
		return o.awaitConfig(ctx, "DNC to write the NodeNetworkConfig of the dead machine", o.first, func(c *unstructured.Unstructured) bool {
			return c != nil && acn.NodeUID(c) == old && acn.Version(c) > 0
		})
	}
	return o.await(ctx, "DNC's write to the NodeNetworkConfig of the dead machine to be refused", podTimeout,
		func(context.Context) (bool, string, error) {
			select {
			case err := <-o.refused:
				o.note("DNC may not write the NodeNetworkConfig of the dead machine")
				return isRefusal(err), err.Error(), nil
			default:
				return false, "it is not", nil
			}
		})
}

// replacementInherits is the run without the guard: the new machine reads the old object. Then that is deleted, as it should
// have long since.
func (o *overlay) replacementInherits(ctx context.Context, pod oldPod, old types.UID, collect func(context.Context) error) error {
	if err := o.runsAgain(ctx, pod); err != nil {
		return err
	}
	if err := collect(ctx); err != nil {
		return fmt.Errorf("letting the garbage collector work: %w", err)
	}
	o.note("the garbage collector deletes it")
	o.cleanedUp.Store(true)
	return o.awaitNewConfig(ctx, old)
}

// replacementWaits is the run with the guard: the old object is deleted although the garbage collector is slow, and the new
// machine waits for that. DNC's clean-up lasts until CNS had the chance to read what it must not.
func (o *overlay) replacementWaits(ctx context.Context, pod oldPod, old types.UID, collect func(context.Context) error) error {
	err := o.awaitConfig(ctx, "the stale NodeNetworkConfig to be deleted by the guard", o.first, func(c *unstructured.Unstructured) bool {
		return c == nil || acn.NodeUID(c) != old || c.GetDeletionTimestamp() != nil
	})
	if err != nil {
		return err
	}
	o.note("the guard has deleted the NodeNetworkConfig of the old Node; DNC cleans up")
	err = o.await(ctx, "CNS on the new machine to start, or to wait", podTimeout, func(ctx context.Context) (bool, string, error) {
		err := o.noteEvents(ctx)
		return o.cnsSpoke, "it has no message", err
	})
	if err != nil {
		return err
	}
	o.cleanedUp.Store(true)
	if err := o.awaitNewConfig(ctx, old); err != nil {
		return err
	}
	if err := o.runsAgain(ctx, pod); err != nil {
		return err
	}
	if err := collect(ctx); err != nil {
		return fmt.Errorf("letting the garbage collector work: %w", err)
	}
	return nil
}

// awaitNewConfig waits until DNC has given the new machine a prefix.
func (o *overlay) awaitNewConfig(ctx context.Context, old types.UID) error {
	return o.awaitConfig(ctx, "the NodeNetworkConfig of the new Node "+o.first, o.first, func(c *unstructured.Unstructured) bool {
		if c == nil || acn.NodeUID(c) == old || c.GetDeletionTimestamp() != nil {
			return false
		}
		prefixes, err := acn.Prefixes(c)
		return err == nil && len(prefixes) > 0
	})
}

// runsAgain waits until the pod, which is bound to the name, runs on the new machine.
func (o *overlay) runsAgain(ctx context.Context, pod oldPod) error {
	var sandbox history.Sandbox
	err := o.await(ctx, "pod one to run on the new machine", podTimeout, func(ctx context.Context) (bool, string, error) {
		if err := o.noteEvents(ctx); err != nil {
			return false, "", err
		}
		found := false
		sandbox, found = o.sandboxOf(pod.UID)
		return found && sandbox.ID != pod.sandbox && sandbox.Ready && len(sandbox.Addresses) > 0, "it does not", nil
	})
	if err == nil {
		o.note("pod one, which is bound to the name, runs again on %s, with %s", o.first, sandbox.Addresses[0].IP)
	}
	return err
}

// noteEvents notes the messages of CNS, and of its init container, on the run's nodes since the last call.
func (o *overlay) noteEvents(ctx context.Context) error {
	events, err := o.cluster.SimNode().History(ctx)
	if err != nil {
		return err
	}
	for _, e := range events[min(o.seen, len(events)):] {
		switch {
		case e.Node != o.first && e.Node != o.second:
		case e.Event == simnodeapi.EventReplace:
			o.replaced = true
		case e.Event == simnodeapi.EventInit, e.Event == simnodeapi.EventCNS:
			o.note("%s: %s", e.Node, e.Message)
			o.cnsSpoke = o.cnsSpoke || o.replaced
		}
	}
	o.seen = max(o.seen, len(events))
	return nil
}

// nextNodeJoins brings up the second node, which gets the prefix that has been free for longest.
func (o *overlay) nextNodeJoins(ctx context.Context) error {
	if err := o.join(ctx, o.second); err != nil {
		return err
	}
	o.note("%s joins", o.second)
	_, address, err := o.startPod(ctx, "two", o.second, nil)
	if err == nil {
		o.note("pod two runs on %s with %s", o.second, address)
	}
	return err
}
