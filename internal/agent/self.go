// SPDX-License-Identifier: Apache-2.0

package agent

import "k8s.io/apimachinery/pkg/types"

// Self gives the UIDs of the agent's own pod and of the Node for which it may respond, as last read. A UID is empty while it is unknown; the
// Node's also while the agent may not respond.
func (a *Agent) Self() (podUID, nodeUID types.UID) {
	me, _ := a.identity.known()
	return me.podUID, me.nodeUID
}
