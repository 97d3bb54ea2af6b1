// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

const (
	// identityRetry is how often the agent asks again who it is while it may not speak, or is asked by a Node UID that is not its own.
	identityRetry = 15 * time.Second
)

// word is what there is to say to one mark.
type word struct {
	asked
	question handshake.Question
	handshake.Word
	// final: ReadyForRelease was written for this epoch.
	final bool
}

// round reads the marks, then the runtime, and says what there is to say.
func (a *Agent) round(ctx context.Context) {
	a.health.began(a.clock.Now())
	own, _, ownSynced := a.own.snapshot()
	all, version, allSynced := a.all.snapshot()
	me := a.whoAmI(ctx, own)

	words := make([]word, 0, len(own)+len(all))
	for _, m := range own {
		words = append(words, a.ask(m, me))
	}
	for _, m := range all {
		if m.mark.NodeUID == "" || m.mark.NodeUID == me.nodeUID {
			words = append(words, a.ask(m, me))
		}
	}
	look := a.look(ctx, words, me)
	for i := range words {
		a.judge(&words[i], look, me)
	}
	a.report(words, look, me)
	if me.nodeUID != "" {
		a.say(words, me)
	}
	if me.nodeUID != "" && allSynced {
		a.acknowledge(ctx, words[len(own):], version, look, me)
	}
	a.health.ended(ownSynced && allSynced && look.Listing != nil && me.nodeUID != "")
}

// whoAmI is what was found last, or finds it out where that does not do: at the start, while the agent may not speak, and when
// it is asked by a Node UID that is not its own, at most every identityRetry.
func (a *Agent) whoAmI(ctx context.Context, marks []asked) self {
	me, at := a.identity.known()
	foreign := false
	for i := range marks {
		uid := marks[i].mark.NodeUID
		foreign = foreign || (uid != "" && uid != me.nodeUID)
	}
	if me.nodeUID != "" && !foreign || !at.IsZero() && a.clock.Now().Sub(at) < identityRetry {
		return me
	}
	found, err := a.identity.fresh(ctx)
	if err != nil {
		a.log.Error(err, "Finding out for which Node to speak; trying again")
		return me
	}
	if found != me {
		a.log.Info("Identity", "nodeUID", found.nodeUID, "bootID", found.bootID, "podUID", found.podUID, "refused", found.message)
	}
	return found
}

// ask makes a question of a mark.
func (a *Agent) ask(m asked, me self) word {
	q := handshake.Question{SandboxID: m.mark.SandboxID, NodeUID: m.mark.NodeUID, Seen: m.at}
	if !isOrphan(m.record) {
		q.RecordUID = types.UID(m.record.Name)
	}
	w := word{asked: m}
	if given := answerOf(m.record, m.mark.SandboxID, me.nodeUID); given != nil {
		if given.BootID == me.bootID && me.bootID != "" {
			q.Affirmed = given.PodUID
		}
		w.final = given.Epoch == m.mark.Epoch && given.Verdict == v1alpha1.VerdictReadyForRelease && q.NodeUID != ""
	}
	w.question = q
	return w
}

// look lists the runtime, and takes the list in.
func (a *Agent) look(ctx context.Context, words []word, me self) handshake.Look {
	questions := make([]handshake.Question, 0, len(words))
	ids := sets.New[string]()
	for i := range words {
		if !words[i].final {
			questions = append(questions, words[i].question)
			ids.Insert(words[i].mark.SandboxID)
		}
	}
	a.memory.Expect(questions)
	began := a.clock.Now()
	look := a.list(ctx, ids, me)
	metrics.AgentListingDuration.Observe(a.clock.Now().Sub(began).Seconds())
	a.memory.Observe(look)
	metrics.AgentSandboxes.Set(float64(a.memory.Len()))
	metrics.AgentQuestions.Set(float64(len(questions)))
	a.pace.open = len(questions) > 0
	a.open.Store(a.pace.open)
	return look
}

func (a *Agent) list(ctx context.Context, ids sets.Set[string], me self) handshake.Look {
	listing, err := a.options.Lister.List(ctx, ids)
	look := handshake.Look{}
	switch {
	case err != nil:
		look = sandbox.FailureOf(err)
	case me.podUID == "":
		look.Failure = handshake.Failure{Reason: v1alpha1.ReasonListFailed,
			Message: "the API server did not say yet in which pod the agent runs, so that nothing shows that this is its node's runtime"}
	default:
		look = handshake.Check(listing, me.podUID)
	}
	result := metrics.AgentListed
	if look.Listing == nil {
		result = string(look.Failure.Reason)
	}
	metrics.AgentListings.WithLabelValues(result).Inc()
	return look
}

// judge fills in the word.
func (a *Agent) judge(w *word, look handshake.Look, me self) {
	switch {
	case w.final:
	case me.nodeUID == "" && me.reason == "":
		w.Word = handshake.Word{Kind: handshake.Later, Message: "the API server did not say yet for which Node the agent speaks"}
	case me.nodeUID == "":
		w.Word = handshake.Word{Kind: handshake.Silence, Reason: v1alpha1.ReasonNotThisMachine, Message: me.message}
	case w.mark.NodeUID != "" && w.mark.NodeUID != me.nodeUID:
		w.Word = handshake.Word{Kind: handshake.Silence, Reason: v1alpha1.ReasonNotThisMachine,
			Message: "the mark asks Node UID " + string(w.mark.NodeUID) + ", but this Node has UID " + string(me.nodeUID)}
	default:
		w.Word = handshake.Judge(w.question, look, a.memory.Recall(w.mark.SandboxID), a.options.Settings)
	}
}

// isOrphan: nobody knows whose addresses the record holds, so its name is no pod UID.
func isOrphan(record *v1alpha1.IPAllocation) bool {
	return len(record.Name) > len(v1alpha1.OrphanPrefix) && record.Name[:len(v1alpha1.OrphanPrefix)] == v1alpha1.OrphanPrefix
}

// answerOf is the answer that the record has from a Node UID about a sandbox; nil without one.
func answerOf(record *v1alpha1.IPAllocation, sandboxID string, nodeUID types.UID) *v1alpha1.Answer {
	for i := range record.Status.Answers {
		if given := &record.Status.Answers[i]; given.SandboxID == sandboxID && given.NodeUID == nodeUID {
			return given
		}
	}
	return nil
}
