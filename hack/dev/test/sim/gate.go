// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
	"github.com/holdfast-dev/holdfast/internal/testing/scheduler"
)

// injection makes the next calls of a client fail.
type injection struct {
	kind   Kind
	client string
	left   int
	writes bool
}

var errUnreachable = errors.New("simulated: no route to the API server")

// Pass is the server's gate: the scheduler says when a call is served, the plan whether it fails.
func (w *World) Pass(ctx context.Context, call apiserver.Call) apiserver.Outcome {
	w.mu.Lock()
	free := w.free
	w.mu.Unlock()
	if free || call.Client == "admin" {
		return apiserver.Outcome{}
	}
	if call.Client == "reconciler" {
		call.Body = sortedOperations(call.Body)
	}
	if !servedAtOnce(call) {
		if who := actorOf(ctx); who != "" {
			ctx = scheduler.As(ctx, who)
		}
		if out := w.sched.Pass(ctx, call); out.Err != nil {
			return out
		}
		if call.Verb == "list" || call.Verb == "watch" || call.Resource == "leases" {
			w.seed() // a reflector, or the leader election, draws its next pause
		}
		if call.Verb == "watch" && call.Resource == "nodes" {
			w.act(w.bookmarkShort)
		}
	}
	return w.fail(call)
}

// sortedOperations is a JSON patch with its operations in order, for the name of the call: whereabouts' reconciler writes them in the order of a map.
func sortedOperations(patch []byte) []byte {
	var operations []json.RawMessage
	if json.Unmarshal(patch, &operations) != nil {
		return patch
	}
	slices.SortFunc(operations, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
	return must(json.Marshal(operations))
}

// servedAtOnce are the calls that the product makes while it holds a mutex, and those whose order means nothing: whereabouts' reconciler reads pods in
// the order of a map.
func servedAtOnce(call apiserver.Call) bool {
	read := call.Verb == "get" || call.Verb == "list" || call.Verb == "watch"
	switch call.Resource {
	case "selfsubjectreviews", "validatingadmissionpolicies", "validatingadmissionpolicybindings":
		return true
	case "nodes", "pods":
		return read && (strings.HasPrefix(call.Client, "agent") || strings.HasPrefix(call.Client, "manager") && call.Verb == "list" || call.Client == "reconciler" && call.Verb == "get")
	case "leases":
		return strings.HasPrefix(call.Client, "kubelet")
	}
	return false
}

// fail is the failure that the plan has for a call.
func (w *World) fail(call apiserver.Call) apiserver.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.machineOfLocked(call.Client); m != nil && m.partitioned {
		return apiserver.Outcome{Err: errUnreachable}
	}
	write := !slices.Contains([]string{"get", "list", "watch"}, call.Verb)
	for _, i := range w.injected {
		if i.left > 0 && strings.HasPrefix(call.Client, i.client) && (write || !i.writes) {
			i.left--
			w.faults[i.kind]++
			return outcomeOf(i.kind, call)
		}
	}
	return apiserver.Outcome{}
}

func outcomeOf(kind Kind, call apiserver.Call) apiserver.Outcome {
	resource := schema.GroupResource{Resource: call.Resource}
	switch kind {
	case Conflict:
		return apiserver.Outcome{Err: apierrors.NewConflict(resource, call.Name, errors.New("simulated"))}
	case Invalid:
		return apiserver.Outcome{Err: apierrors.NewInvalid(schema.GroupKind{Kind: call.Resource}, call.Name, nil)}
	case Throttled:
		return apiserver.Outcome{Err: apierrors.NewTooManyRequests("simulated", 1)}
	case InternalError:
		return apiserver.Outcome{Err: apierrors.NewInternalError(errors.New("simulated"))}
	case ResponseLost, ReportLost:
		return apiserver.Outcome{Lost: true}
	default:
		return apiserver.Outcome{Err: errUnreachable}
	}
}

// bookmark sends a bookmark to the watches of agents and of Nodes every minute, as the API server does: without one a quiet watch does not know its
// version.
func (w *World) bookmark() {
	for rested(w.ctx, time.Minute) && w.turn(w.ctx, "bookmarks") {
		for _, s := range w.server.Streams() {
			if (strings.HasPrefix(s.Name(), "agent@") || strings.HasSuffix(s.Name(), " watch nodes")) && !w.isHeld(s.Name()+" event") {
				s.Bookmark()
			}
		}
	}
}

// bookmarkShort sends a bookmark to watches with a short limit soon after one began, as the API server does two seconds before the limit.
func (w *World) bookmarkShort() {
	if !rested(w.ctx, time.Second) || !w.turn(w.ctx, "bookmarks of short watches") {
		return
	}
	for _, s := range w.server.Streams() {
		if s.IsShort() && !w.isHeld(s.Name()+" event") {
			s.Bookmark()
		}
	}
}

// hold delays the steps of a process, or of one of its watches, for a while.
func (w *World) hold(prefix string, d time.Duration) {
	w.setHold(prefix, 1)
	w.after(d, func() { w.setHold(prefix, -1) })
}

func (w *World) setHold(prefix string, by int) {
	w.mu.Lock()
	w.holds[prefix] += by
	w.mu.Unlock()
	w.sched.Wake()
}

// after does something later, or at the end of the faults.
func (w *World) after(d time.Duration, f func()) {
	w.act(func() {
		rested(w.ctx, min(d, max(0, duration-w.since())))
		f()
	})
}

func (w *World) isHeld(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for prefix, n := range w.holds {
		if n > 0 && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
