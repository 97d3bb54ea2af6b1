// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Token is what the API server reads from the agent's token about who it was issued for.
type Token struct {
	PodUID   types.UID
	NodeName string
	NodeUID  types.UID
}

// Responder is who the agent is: the Node for which its token was issued, the Node object of its name, and the machine on
// which it runs.
type Responder struct {
	// NodeName is the name that the agent was given.
	NodeName string
	Token    Token
	// Node is the live Node object of that name; nil if there is none.
	Node *v1alpha1.NodeIdentity
	// Host is the machine on which the agent runs. UID is empty.
	Host v1alpha1.NodeIdentity
}

// RespondsFor gives the Node UID for which the agent may answer. The reason is ReasonNotThisMachine, and the message says why,
// where it may not: a new machine under an old name, a copied token, or a Node that was registered again.
func (r Responder) RespondsFor() (_ types.UID, _ v1alpha1.Reason, message string) {
	switch {
	case r.Token.NodeName != r.NodeName:
		message = fmt.Sprintf("the agent's token was issued for node %q, but it was started for node %q; run it in a pod of that node",
			r.Token.NodeName, r.NodeName)
	case r.Node == nil:
		message = fmt.Sprintf("there is no Node %s", r.NodeName)
	case r.Token.NodeUID == "" || r.Token.NodeUID != r.Node.UID:
		message = fmt.Sprintf("the agent's token was issued for Node UID %q, but Node %s has UID %s; it answers again once the kubelet has renewed the token",
			r.Token.NodeUID, r.NodeName, r.Node.UID)
	default:
		message = r.machine()
	}
	if message != "" {
		return "", v1alpha1.ReasonNotThisMachine, message
	}
	return r.Node.UID, "", ""
}

// machine compares the Node with the host. The boot ID must be known and equal; of the others, what both sides know. The
// kubelet reads the same files.
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

// Foreign says why a query to this Node is not for the agent in a boot; empty if it is. One that names no boot is for none: a response to it would
// count for no boot.
func Foreign(q v1alpha1.SandboxQuery, boot string) string {
	if q.BootID == "" || q.BootID != boot {
		return fmt.Sprintf("the query is to the boot %q of the Node, but this is boot %s: the sandbox may be another machine's, or of before a reboot", q.BootID, boot)
	}
	return ""
}

// Final tells whether a response to a query is the last one. Sandbox IDs do not return, so that there is nothing to look for; a response of another epoch
// or boot is to another query.
func Final(q v1alpha1.SandboxQuery, given v1alpha1.SandboxResponse) bool {
	return given.Verdict == v1alpha1.VerdictReadyForRelease && given.Record == q.Record && given.SandboxID == q.SandboxID &&
		given.Epoch == q.Epoch && q.BootID != "" && given.BootID == q.BootID
}
