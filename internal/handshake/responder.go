// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Token is the identity for which the agent's token was issued, as the API server reports it.
type Token struct {
	PodUID   types.UID
	NodeName string
	NodeUID  types.UID
}

// Responder is the identity of an agent: the Node for which its token was issued, the Node object of its name, and the machine on which it
// runs.
type Responder struct {
	// NodeName is the node name that the agent was started with.
	NodeName string
	Token    Token
	// Node is the live Node object of that name; nil if there is none.
	Node *v1alpha1.NodeIdentity
	// Host is the machine on which the agent runs. Its UID is empty.
	Host v1alpha1.NodeIdentity
}

// RespondsFor gives the Node UID for which the agent may respond. If it may not, the UID is empty and the reason is ReasonNotThisMachine:
// another machine has the name, the token was copied, or the Node was registered again.
func (r Responder) RespondsFor() (_ types.UID, _ v1alpha1.Reason, message string) {
	switch {
	case r.Token.NodeName != r.NodeName:
		message = fmt.Sprintf("the agent's token was issued for node %q, but it was started for node %q; run it in a pod of that node",
			r.Token.NodeName, r.NodeName)
	case r.Node == nil:
		message = fmt.Sprintf("there is no Node %s", r.NodeName)
	case r.Token.NodeUID == "" || r.Token.NodeUID != r.Node.UID:
		message = fmt.Sprintf("the agent's token was issued for Node UID %q, but Node %s has UID %s; it responds again once the kubelet has renewed the token",
			r.Token.NodeUID, r.NodeName, r.Node.UID)
	default:
		message = r.machine()
	}
	if message != "" {
		return "", v1alpha1.ReasonNotThisMachine, message
	}
	return r.Node.UID, "", ""
}

// machine compares the Node with the host. The boot ID has to be known and equal; the other IDs are compared where both are known.
func (r Responder) machine() string {
	for _, id := range []struct {
		name, node, host string
		required         bool
	}{
		{"boot ID", r.Node.BootID, r.Host.BootID, true},
		{"machine ID", r.Node.MachineID, r.Host.MachineID, false},
		{"system UUID", r.Node.SystemUUID, r.Host.SystemUUID, false},
	} {
		unknown := id.node == "" || id.host == ""
		if (unknown && id.required) || (!unknown && !strings.EqualFold(id.node, id.host)) {
			return fmt.Sprintf("Node %s (UID %s) reports the %s %q, but this machine has %q: another machine has the name",
				r.NodeName, r.Node.UID, id.name, id.node, id.host)
		}
	}
	return ""
}

// Foreign says why a query to this Node is not for the agent in a boot; empty if it is. A query without a boot ID is for no agent.
func Foreign(q v1alpha1.SandboxQuery, boot string) string {
	if q.BootID == "" || q.BootID != boot {
		return fmt.Sprintf("the query is to the boot %q of the Node, but this is boot %s: the sandbox may be of another machine, or from before a reboot", q.BootID, boot)
	}
	return ""
}

// Final says whether a response is the last one to a query: sandbox IDs do not return. A response of another epoch or boot is to another query.
func Final(q v1alpha1.SandboxQuery, given v1alpha1.SandboxResponse) bool {
	return given.Verdict == v1alpha1.VerdictReadyForRelease && given.Record == q.Record && given.SandboxID == q.SandboxID &&
		given.Epoch == q.Epoch && q.BootID != "" && given.BootID == q.BootID
}
