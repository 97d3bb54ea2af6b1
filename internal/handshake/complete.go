// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Check makes a Look of a listing. A list without the agent's own sandbox, ready, is incomplete or another runtime's: a runtime that was
// restarted on an empty folder lists nothing, and would prove everything gone. The tasks have to show that sandbox too.
func Check(l *Listing, own types.UID) Look {
	failed := func(format string, args ...any) Look {
		return Look{Failure: Failure{Reason: v1alpha1.ReasonListFailed, Message: fmt.Sprintf(format, args...)}}
	}
	ids := make(map[string]bool, len(l.Sandboxes))
	self := ""
	for i := range l.Sandboxes {
		s := &l.Sandboxes[i]
		if s.ID == "" || ids[s.ID] {
			return failed("%s listed a sandbox without an ID, or one ID (%q) twice", l.Runtime, s.ID)
		}
		ids[s.ID] = true
		if s.Pod.UID == own && s.State == StateReady {
			self = s.ID
		}
	}
	if own == "" || self == "" {
		return failed("%s lists no ready sandbox of the agent's own pod (UID %q) among its %d: it is not the runtime of this node's kubelet, or not all of its list",
			l.Runtime, own, len(l.Sandboxes))
	}
	if t := &l.Tasks; t.IDs != nil && t.Problem == "" && !t.IDs[self] {
		t.Problem = fmt.Sprintf("the folders in which %s keeps its tasks do not show the agent's own sandbox %s: they are those of another runtime, or it keeps them elsewhere", l.Runtime, self)
	}
	return Look{Listing: l}
}
