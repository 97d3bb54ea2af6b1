// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Judge decides about a query after a look at the runtime, which the recollection contains. Whether the agent may respond, and whether the
// query is for it, is decided elsewhere: see Responder and Foreign.
func Judge(q Query, look Look, r Recollection, s Settings) Outcome {
	if look.Listing == nil {
		return noResponse(look.Failure.Reason, look.Failure.Message)
	}
	l := look.Listing
	if l.Began.Before(q.Seen) {
		return Outcome{Kind: Pending, Message: "the query came after the last list of the runtime began"}
	}
	listed := l.find(q.SandboxID)
	own := q
	own.DisownedBy = "" // of two sandboxes of that pod either one holds the address
	if clash := conflict(own, l, r, listed); clash != "" {
		return noResponse(v1alpha1.ReasonUIDConflict, clash)
	}
	w := judge(q, l, r, s, listed)
	if q.NodeUID == "" {
		w = claim(w)
	}
	if l.Tasks.Problem != "" && (w.Verdict == v1alpha1.VerdictReadyForRelease || w.Kind == NoClaim) {
		return noResponse(v1alpha1.ReasonListFailed, "a sandbox that the runtime failed to load would be in no list and still running: "+l.Tasks.Problem)
	}
	return w
}

// judge is the outcome for the node that has, or had, the sandbox.
func judge(q Query, l *Listing, r Recollection, s Settings, listed *Sandbox) Outcome {
	if q.SandboxID == v1alpha1.AnySandbox {
		return judgeAny(q, l, r, s)
	}
	var w Outcome
	if listed != nil {
		w = judgeListed(l, listed)
	} else {
		w = judgeAbsent(q, l, r, s)
	}
	if w.Verdict != v1alpha1.VerdictReadyForRelease || l.Tasks.Problem != "" { // SandboxReplaced says that it is gone too
		return w
	}
	var others []string
	for _, other := range l.living(q.SandboxID, q.podsWith(r, listed)) {
		others = append(others, other.ID)
	}
	if others = append(others, r.Unloaded...); len(others) > 0 {
		w.Verdict, w.Reason = v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced
		w.Message = fmt.Sprintf("the sandbox is gone (%s), but of the same pod %s is not, and may use its address", w.Message, strings.Join(others, ", "))
	}
	if len(others) == 1 {
		w.SuccessorID = others[0]
	}
	return w
}

// judgeListed judges a sandbox that is listed. Not ready alone does not count as gone.
func judgeListed(l *Listing, s *Sandbox) Outcome {
	hold := func(reason v1alpha1.Reason, message string) Outcome {
		return decided(l, v1alpha1.VerdictDoNotRelease, reason, s.Pod.UID, message)
	}
	switch {
	case s.State != StateNotReady:
		return hold(v1alpha1.ReasonSandboxReady, "the runtime lists the sandbox as ready")
	case !l.ReportsNamespaces:
		return hold(v1alpha1.ReasonSandboxListed, l.Runtime+" still lists the sandbox, and does not report whether the network of a stopped one is released; "+
			"the kubelet removes the last sandbox of a pod once the pod is deleted, and not when it has completed")
	case s.NotExited > 0:
		return hold(v1alpha1.ReasonContainerNotExited, fmt.Sprintf("%d of its containers have not exited", s.NotExited))
	case l.Tasks.IDs[s.ID]:
		return hold(v1alpha1.ReasonContainerNotExited, "the sandbox is not ready, but the task of its own container has not ended")
	case s.Network == NamespaceOpen:
		return hold(v1alpha1.ReasonNetworkNamespaceOpen, "the sandbox is not ready, but its network namespace is open")
	case s.Network != NamespaceClosed:
		return hold(v1alpha1.ReasonNetworkNamespaceUnknown, "the sandbox is not ready, and the runtime did not report whether its network namespace is closed")
	}
	return decided(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxStopped, s.Pod.UID,
		"the sandbox is stopped, every container has exited and its network namespace is closed")
}

// judgeAbsent judges a sandbox that is not listed. One that was seen before never returns, unless its task shows that the runtime failed to
// load it; one that was never seen may be starting.
func judgeAbsent(q Query, l *Listing, r Recollection, s Settings) Outcome {
	pod := r.Pod.UID
	if !r.Listed {
		pod = q.Affirmed
	}
	switch {
	case l.Tasks.IDs[q.SandboxID]:
		return decided(l, v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, pod,
			l.Runtime+" does not list the sandbox, but has a task of it: it failed to load the sandbox when it was restarted, or is creating it")
	case l.Strays[q.SandboxID].NotExited > 0:
		return decided(l, v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonContainerNotExited, pod,
			fmt.Sprintf("the runtime does not list the sandbox, but %d of its containers, which have not exited", l.Strays[q.SandboxID].NotExited))
	case r.Listed:
		return decided(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, pod, "the runtime no longer lists the sandbox")
	case q.Affirmed != "":
		return decided(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, pod,
			"the runtime no longer lists the sandbox, which an agent of this Node saw earlier in this boot")
	case q.CreationDone:
		return decided(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxNeverListed, "",
			"the runtime does not list the sandbox, which is not being created any more")
	case r.absentFor(l, s):
		return decided(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxNeverListed, "",
			"no list of the runtime showed the sandbox for longer than "+s.SandboxCreationMax.String())
	}
	return decided(l, v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, "",
		"this agent never saw the sandbox: it may be starting until no list showed it for longer than "+s.SandboxCreationMax.String())
}

// judgeAny judges every sandbox of the record's pod UID, including one that is being created. Only a single Node can be queried about that.
func judgeAny(q Query, l *Listing, r Recollection, s Settings) Outcome {
	if q.RecordUID == "" || q.NodeUID == "" {
		return Outcome{Kind: Pending, Message: "the query is about every sandbox of a pod UID, but names no pod UID, or no Node"}
	}
	if living := l.living("", []types.UID{q.RecordUID}); len(living) > 0 {
		w := judgeListed(l, living[0])
		w.SuccessorID, w.Message = living[0].ID, "sandbox "+living[0].ID+": "+w.Message
		return w
	}
	var seen types.UID
	if r.Listed || len(l.of(q.RecordUID)) > 0 {
		seen = q.RecordUID
	}
	if len(r.Unloaded) > 0 {
		w := decided(l, v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, seen,
			l.Runtime+" does not list sandbox "+r.Unloaded[0]+", but has a task or a container of it")
		w.SuccessorID = r.Unloaded[0]
		return w
	}
	if r.absentFor(l, s) {
		return decided(l, v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonNoSandbox, seen,
			"no list of the runtime showed a sandbox of the pod UID that is not gone for longer than "+s.SandboxCreationMax.String())
	}
	return decided(l, v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, seen,
		"a sandbox of the pod UID may be starting until no list showed one that is not gone for longer than "+s.SandboxCreationMax.String())
}

// absentFor says whether the sequence of lists is longer than the creation of a sandbox can take.
func (r Recollection) absentFor(l *Listing, s Settings) bool {
	return !r.AbsentSince.IsZero() && l.Began.Sub(r.AbsentSince) > s.SandboxCreationMax
}

// claim turns the outcome about a sandbox into that of a query to all nodes: whether this node has or had it.
func claim(w Outcome) Outcome {
	switch {
	case w.Kind != Decided:
		return w
	case w.Verdict == v1alpha1.VerdictDoNotRelease && w.Reason != v1alpha1.ReasonSandboxNotSeen:
		return w
	case w.Reason == v1alpha1.ReasonSandboxNeverListed:
		return Outcome{Kind: NoClaim, Time: w.Time, Message: w.Message}
	case w.Verdict == v1alpha1.VerdictReadyForRelease:
		w.Verdict, w.Reason = v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxOfThisNode
		w.Message = "this node had the sandbox; it reports whether the sandbox is gone once it is queried by its Node UID"
		return w
	}
	return Outcome{Kind: Pending, Message: w.Message}
}
