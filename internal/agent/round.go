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
	// identityRetry is how often the agent asks again who it is while it may not speak, or is asked by a Node UID or a boot that is
	// not its own.
	identityRetry = 15 * time.Second
	// listTimeout bounds a look at the runtime. A longer one would be in no row of lists.
	listTimeout = handshake.MaxGap
)

// word is what there is to say to one mark.
type word struct {
	asked
	question handshake.Question
	handshake.Word
	// final: ReadyForRelease was written for this epoch and boot.
	final bool
}

// claim is what there is to say to one query to all nodes.
type claim struct {
	queried
	question handshake.Question
	handshake.Word
}

// round reads the marks and queries, then the runtime, and says what there is to say.
func (a *Agent) round(ctx context.Context) {
	a.began = a.clock.Now()
	a.health.step(a.began)
	own := a.own.snapshot()
	all, standing, synced := a.all.snapshot()
	me := a.whoAmI(ctx, own.marks)
	words := make([]word, 0, len(own.marks))
	for _, m := range own.marks {
		words = append(words, a.ask(m, me))
	}
	claims := a.claims(standing, me)
	look := a.look(ctx, words, claims, me)
	a.health.step(a.clock.Now())
	for i := range words {
		a.judge(&words[i], look, me)
	}
	for i := range claims {
		claims[i].Word = a.wordOn(claims[i].question, look, me)
	}
	a.report(words, claims, look, me)
	if me.nodeUID != "" {
		a.say(own.records, words, me)
	}
	if me.nodeUID != "" && all != nil && look.Listing != nil {
		a.respond(ctx, all, claims, look.Listing.Began)
	}
	a.health.step(a.clock.Now())
	a.health.ended(own.synced && synced && look.Listing != nil && me.nodeUID != "")
}

// claims makes questions of the queries to all nodes. With which pod the agent saw a sandbox in this boot stands in its own response.
func (a *Agent) claims(standing []queried, me self) []claim {
	claims := make([]claim, 0, len(standing))
	for _, query := range standing {
		q := handshake.Question{SandboxID: query.SandboxID, Seen: query.at, Ended: true}
		if given := a.responder.claimOf(query.SandboxID, me); given != nil {
			q.Affirmed = given.PodUID
		}
		claims = append(claims, claim{queried: query, question: q})
	}
	return claims
}

// whoAmI is what was found last, or finds it out where that does not do: at the start, while the agent may not speak, and when
// it is asked by a Node UID or a boot that is not its own, at most every identityRetry.
func (a *Agent) whoAmI(ctx context.Context, marks []asked) self {
	me, at := a.identity.known()
	foreign := false
	for i := range marks {
		foreign = foreign || handshake.Foreign(marks[i].mark, me.nodeUID, me.bootID) != ""
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
	q := handshake.Question{SandboxID: m.mark.SandboxID, NodeUID: m.mark.NodeUID, Seen: m.at, Ended: !m.mark.Living && !m.mark.Fence}
	if !isOrphan(m.record) {
		q.RecordUID = types.UID(m.record.Name)
	}
	q.Affirmed = claimedWith(m.record, m.mark.SandboxID, me)
	w := word{asked: m}
	if given := answerOf(m.record, m.mark.SandboxID, me.nodeUID); given != nil {
		if given.BootID == me.bootID && me.bootID != "" {
			q.Affirmed = given.PodUID
		}
		w.final = handshake.Final(m.mark, *given) && handshake.Foreign(m.mark, me.nodeUID, me.bootID) == ""
	}
	w.question = q
	return w
}

// claimedWith is the pod UID with which this node claimed the sandbox of an orphan in this boot, before the record named the node; empty if it did not.
func claimedWith(record *v1alpha1.IPAllocation, sandboxID string, me self) types.UID {
	for i := range record.Spec.Sandboxes {
		if s := &record.Spec.Sandboxes[i]; s.ID == sandboxID && s.Node != nil && s.Node.UID == me.nodeUID && s.Node.BootID == me.bootID {
			return s.PodUID
		}
	}
	return ""
}

// look lists the runtime, and takes the list in.
func (a *Agent) look(ctx context.Context, words []word, claims []claim, me self) handshake.Look {
	questions := make([]handshake.Question, 0, len(words)+len(claims))
	for i := range words {
		if !words[i].final {
			questions = append(questions, words[i].question)
		}
	}
	for i := range claims {
		questions = append(questions, claims[i].question)
	}
	about := sandbox.Asked{IDs: sets.New[string](), Pods: sets.New[types.UID]()}
	for _, q := range questions {
		about.IDs.Insert(q.SandboxID)
		about.Pods.Insert(q.Pods(a.memory.Recall(q))...)
	}
	a.memory.Expect(questions)
	began := a.clock.Now()
	look := a.list(ctx, about, me)
	metrics.AgentListingDuration.Observe(a.clock.Now().Sub(began).Seconds())
	a.memory.Observe(look)
	metrics.AgentSandboxes.Set(float64(a.memory.Len()))
	metrics.AgentQuestions.Set(float64(len(questions)))
	a.pace.open = len(questions) > 0
	a.open.Store(a.pace.open)
	return look
}

func (a *Agent) list(ctx context.Context, about sandbox.Asked, me self) handshake.Look {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listing, err := a.options.Lister.List(ctx, about)
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
	if w.final {
		return
	}
	if foreign := handshake.Foreign(w.mark, me.nodeUID, me.bootID); me.nodeUID != "" && foreign != "" {
		w.Word = handshake.Word{Kind: handshake.Silence, Reason: v1alpha1.ReasonNotThisMachine, Message: foreign}
		return
	}
	w.Word = a.wordOn(w.question, look, me)
}

// wordOn is what there is to say to a question that is for this agent.
func (a *Agent) wordOn(q handshake.Question, look handshake.Look, me self) handshake.Word {
	switch {
	case me.nodeUID == "" && me.reason == "":
		return handshake.Word{Kind: handshake.Later, Message: "the API server did not say yet for which Node the agent speaks"}
	case me.nodeUID == "":
		return handshake.Word{Kind: handshake.Silence, Reason: v1alpha1.ReasonNotThisMachine, Message: me.message}
	}
	return handshake.Judge(q, look, a.memory.Recall(q), a.options.Settings)
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
