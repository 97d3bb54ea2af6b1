// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Judge says what the agent has to say to a question after a look at the runtime. The recollection is of the question's
// sandbox and contains that look. Whether the agent may speak for the question's Node is not asked here: see Speaker.
func Judge(q Question, look Look, r Recollection, s Settings) Word {
	if look.Listing == nil {
		return silent(look.Failure.Reason, look.Failure.Message)
	}
	l := look.Listing
	if l.Began.Before(q.Seen) {
		return Word{Kind: Later, Message: "the mark came after the last list of the runtime began"}
	}
	listed := l.find(q.SandboxID)
	if clash := conflict(q, l, r, listed); clash != "" {
		return silent(v1alpha1.ReasonUIDConflict, clash)
	}
	var w Word
	if listed != nil {
		w = judgeListed(l, listed)
	} else {
		w = judgeAbsent(q, l, r, s)
	}
	if q.NodeUID == "" {
		return claim(w)
	}
	return w
}

// judgeListed: not ready is not gone.
func judgeListed(l *Listing, s *Sandbox) Word {
	hold := func(reason v1alpha1.Reason, message string) Word {
		return answer(l, v1alpha1.VerdictDoNotRelease, reason, s.Pod.UID, message)
	}
	switch {
	case s.State != StateNotReady:
		return hold(v1alpha1.ReasonSandboxReady, "the runtime lists the sandbox as ready")
	case !l.TellsNamespaces:
		return hold(v1alpha1.ReasonSandboxListed, l.Runtime+" still lists the sandbox, and does not tell whether a stopped one has given its network back")
	case s.NotExited > 0:
		return hold(v1alpha1.ReasonContainerNotExited, fmt.Sprintf("%d of its containers have not exited", s.NotExited))
	case s.Network == NamespaceOpen:
		return hold(v1alpha1.ReasonNetworkNamespaceOpen, "the sandbox is not ready, but its network namespace is open")
	case s.Network != NamespaceClosed:
		return hold(v1alpha1.ReasonNetworkNamespaceUnknown, "the sandbox is not ready, and the runtime did not tell whether its network namespace is closed")
	}
	return answer(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxStopped, s.Pod.UID,
		"the sandbox is stopped, every container has exited and its network namespace is closed")
}

// judgeAbsent: an ID that was seen never returns; one that was not may still be in the making.
func judgeAbsent(q Question, l *Listing, r Recollection, s Settings) Word {
	switch {
	case r.Listed:
		return answer(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, r.Pod.UID, "the runtime no longer lists the sandbox")
	case q.Affirmed != "":
		return answer(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, q.Affirmed,
			"the runtime no longer lists the sandbox, which an agent of this Node saw earlier in this boot")
	case !r.AbsentSince.IsZero() && l.Began.Sub(r.AbsentSince) > s.SandboxCreationMax:
		return answer(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxNeverListed, "",
			"no list of the runtime showed the sandbox for longer than "+s.SandboxCreationMax.String())
	}
	return answer(l, v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, "",
		"this agent never saw the sandbox: it may be in the making until no list showed it for longer than "+s.SandboxCreationMax.String())
}

// claim turns the word about a sandbox into what may be said to a mark that asks all nodes: that this one has or had it.
func claim(w Word) Word {
	switch {
	case w.Verdict == v1alpha1.VerdictDoNotRelease && w.Reason != v1alpha1.ReasonSandboxNotSeen:
		return w
	case w.Reason == v1alpha1.ReasonSandboxNeverListed:
		return Word{Kind: Nothing, Time: w.Time, Message: w.Message}
	case w.Verdict == v1alpha1.VerdictReadyForRelease:
		w.Verdict, w.Reason = v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxOfThisNode
		w.Message = "this node had the sandbox, and says more once it is asked by its Node UID"
		return w
	}
	return Word{Kind: Later, Message: w.Message}
}

// conflict says why nobody can tell which sandbox is which; empty if there is no doubt.
func conflict(q Question, l *Listing, r Recollection, listed *Sandbox) string {
	if r.Clash {
		return fmt.Sprintf("sandbox %s was listed under more than one pod", q.SandboxID)
	}
	for _, uid := range []types.UID{q.RecordUID, r.Pod.UID, q.Affirmed, podOf(listed)} {
		if clash := l.clash(uid); clash != "" {
			return clash
		}
	}
	return ""
}

func podOf(s *Sandbox) types.UID {
	if s == nil {
		return ""
	}
	return s.Pod.UID
}

func (l *Listing) find(id string) *Sandbox {
	for i := range l.Sandboxes {
		if l.Sandboxes[i].ID == id {
			return &l.Sandboxes[i]
		}
	}
	return nil
}

// clash finds two ready sandboxes of one pod UID, or one UID under two names.
func (l *Listing) clash(uid types.UID) string {
	if uid == "" {
		return ""
	}
	var first, ready *Sandbox
	for i := range l.Sandboxes {
		s := &l.Sandboxes[i]
		if s.Pod.UID != uid {
			continue
		}
		if first != nil && first.Pod != s.Pod {
			return fmt.Sprintf("pod UID %s is listed as %s/%s with sandbox %s and as %s/%s with sandbox %s",
				uid, first.Pod.Namespace, first.Pod.Name, first.ID, s.Pod.Namespace, s.Pod.Name, s.ID)
		}
		first = s
		if s.State == StateNotReady {
			continue
		}
		if ready != nil {
			return fmt.Sprintf("pod UID %s has two ready sandboxes, %s and %s", uid, ready.ID, s.ID)
		}
		ready = s
	}
	return ""
}
