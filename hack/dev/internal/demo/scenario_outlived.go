// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// outlivedNode is the report of a kubelet on a pod that it never ran.
func outlivedNode() scenario {
	return scenario{
		name:  "replaced-while-the-old-machine-lives",
		title: "A machine is replaced under its name, and the new kubelet reports the end of the old one's pod",
		harm: "A machine is cut off, and web-0 on it is deleted; no process there learns of it. An autoscaler replaces the machine under its name and " +
			"cannot power it off. The new kubelet finds a pod that is being deleted and of which it has no sandbox: it reports its end, and the " +
			"object is deleted. The new web-0 gets the address of the old one, which lives on on the old machine.",
		guard: "names never identify. The Node has another UID and another machine ID than the one that ran the sandbox, so its kubelet's report is " +
			"none about it: the object of web-0 is held. As with a deleted Node, five minutes without a sign of the old machine end that.",
		play: playOutlivedNode,
	}
}

func playOutlivedNode(ctx context.Context, s *stage) error {
	old, err := s.startWeb(ctx)
	if err != nil {
		return err
	}
	before, err := s.getNode(ctx, s.first)
	if err != nil {
		return err
	}
	if err := s.cutOff(ctx, s.first); err != nil {
		return err
	}
	if err := s.client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", old.Name, err)
	}
	s.note("web-0 is deleted; its kubelet is cut off")
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.ReplaceUnreachable, s.first); err != nil {
		return err
	}
	node, err := s.awaitReady(ctx, s.first, before.UID)
	if err != nil {
		return err
	}
	if node.Status.NodeInfo.MachineID == before.Status.NodeInfo.MachineID {
		return fmt.Errorf("node %s has the same machine as before, so the run shows nothing", s.first)
	}
	s.note("another machine registers as %s: Node UID %s; the old one lives on", s.first, node.UID)
	if s.guard {
		return s.staysHeld(ctx, old)
	}
	return s.inherited(ctx, old, podTimeout, "the new kubelet has reported the end of web-0; a new web-0")
}
