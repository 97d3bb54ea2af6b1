// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// NodeSlicePath is where the API server sends writes that take a slice from a node.
const NodeSlicePath = "/mutate-nodeslicepools"

// defaultSliceTimeout leaves time for a response before the API server's own timeout, 2 s, which would let the write pass.
const defaultSliceTimeout = 1400 * time.Millisecond

// NodeSliceOptions configure the webhook that keeps slices.
type NodeSliceOptions struct {
	// Slices is the backend whose slices are kept. Required.
	Slices ipam.Sliced
	// ManagerUser is the manager's own user name, which takes slices from deleted nodes.
	ManagerUser string
	// Timeout bounds the live reads of one request. Default: 1.4 s, for a webhook timeout of 2 s.
	Timeout time.Duration
	// Clock is the real one except in tests; it limits events.
	Clock clock.PassiveClock
}

// NodeSliceGuard gives a slice that a write takes from a node back to it, in the same write, while entries remain in the
// node's pool of it. The pool of the next node has another name and would start empty: the same addresses twice.
//
// It refuses no update that keeps the object. whereabouts takes slices from deleted nodes and gives slices to new ones in one write, so a refusal
// would leave the new nodes without. A deletion takes all slices, and is refused while entries remain in any (docs/decisions/0322).
type NodeSliceGuard struct {
	options  NodeSliceOptions
	recorder events.EventRecorder
	events   *eventlimit.Limit
	// authentic rejects reviews that the API server did not send; nil disables the check.
	authentic *authenticator
}

// slicesTaken is the registration of NodeSliceGuard.
var slicesTaken = whereaboutsRegistration("NodeSlicePool", "nodeslicepools", admissionv1.Update, admissionv1.Delete)

var _ admission.Handler = &NodeSliceGuard{}

// SetupNodeSliceWebhook serves the webhook at NodeSlicePath of the manager's webhook server.
func SetupNodeSliceWebhook(mgr manager.Manager, o NodeSliceOptions) error {
	guard, err := newNodeSliceGuard(mgr.GetEventRecorder("holdfast"), o)
	if err != nil {
		return fmt.Errorf("setting up the webhook that keeps slices: %w", err)
	}
	guard.authentic = newAuthenticator(mgr.GetAPIReader())
	mgr.GetWebhookServer().Register(NodeSlicePath, serve("nodeslicepools", maxPoolBytes, guard))
	return nil
}

func newNodeSliceGuard(recorder events.EventRecorder, o NodeSliceOptions) (*NodeSliceGuard, error) {
	if o.Slices == nil || o.ManagerUser == "" {
		return nil, errors.New("it needs a backend that knows what is in use, and the manager's user name")
	}
	if o.Timeout == 0 {
		o.Timeout = defaultSliceTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &NodeSliceGuard{options: o, recorder: recorder, events: eventlimit.New(o.Clock, eventBounds)}, nil
}

// Handle allows every update that keeps the object, and changes those that take a slice that is, or may be, in use.
func (k *NodeSliceGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.UserInfo.Username == k.options.ManagerUser || !k.options.Slices.Guards(req.Namespace) {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, k.options.Timeout)
	defer cancel()
	if k.authentic != nil {
		if err := k.authentic.check(ctx, slicesTaken, &req); err != nil {
			return CouldNotTell(err)
		}
	}
	before, err := k.options.Slices.DecodeSlicePool(req.OldObject.Raw)
	if err != nil {
		return CouldNotTell(err)
	}
	if deletes(&req) {
		return k.judgeDeletion(ctx, &req, before)
	}
	after, err := k.options.Slices.DecodeSlicePool(req.Object.Raw)
	if err != nil {
		return CouldNotTell(err)
	}
	taken := ipam.TakenSlices(before, after)
	var kept []ipam.TakenSlice
	var messages []string
	for i, why := range k.judge(ctx, before, taken) {
		if why == "" {
			continue
		}
		kept = append(kept, taken[i])
		messages = append(messages, message(before, &taken[i], why))
		k.emit(&req, before, &taken[i], messages[len(messages)-1])
	}
	response := admission.Allowed("")
	if len(kept) > 0 {
		logf.FromContext(ctx).Info("Slices stay with their nodes", "taken", len(taken), "kept", len(kept), "first", messages[0])
		response.Patches = k.options.Slices.KeepSlices(after, kept)
		response = response.WithWarnings(presentable(abridge(messages))...)
	}
	return response
}

// judgeDeletion refuses a deletion while a slice is, or may be, in use. whereabouts deletes the object of a network once any definition of its name, in
// any namespace, is deleted, and tries again until it succeeds.
func (k *NodeSliceGuard) judgeDeletion(ctx context.Context, req *admission.Request, pool *ipam.SlicePool) admission.Response {
	taken := ipam.TakenSlices(pool, &ipam.SlicePool{Range: pool.Range, Size: pool.Size})
	for some := range slices.Chunk(taken, casesAtOnce) {
		whys := k.judge(ctx, pool, some)
		at := slices.IndexFunc(whys, func(why string) bool { return why != "" })
		if at < 0 {
			continue
		}
		text := fmt.Sprintf("%s: NodeSlicePool %s is not deleted while addresses of it are in use: slice %s of node %s: %s. Without it the range would be divided anew, "+
			"and nodes would hand out addresses in use. Delete the pods of the network first; to delete it all the same, set its annotation holdfast.dev/break-glass to the reason.",
			v1alpha1.ReasonUnsafeReleaseRefused, pool, some[at].Range, some[at].Node, whys[at])
		k.emit(req, pool, &some[at], text)
		return admission.Denied(text)
	}
	return admission.Allowed("")
}

// judge returns for each slice why it stays; empty if it may be taken. The reads go side by side: a write that takes the slices of a
// hundred nodes has the same timeout as one that takes one.
func (k *NodeSliceGuard) judge(ctx context.Context, pool *ipam.SlicePool, taken []ipam.TakenSlice) []string {
	whys := make([]string, len(taken))
	var reads []func()
	for i := range taken {
		reads = append(reads, func() {
			use, err := k.options.Slices.SliceUse(ctx, pool, taken[i].Slice)
			outcome := metrics.SliceLetGo
			switch {
			case err != nil:
				outcome, whys[i] = metrics.SliceUnknown, fmt.Sprintf("whether entries remain could not be read (%v)", err)
			case use.Any():
				outcome, whys[i] = metrics.SliceKept, fmt.Sprintf("IPPool %s still holds %d of its entries", use.Pool, use.Entries)
			}
			metrics.TakenSlices.WithLabelValues(outcome).Inc()
		})
	}
	sideBySide(reads...)
	return whys
}

func message(pool *ipam.SlicePool, slice *ipam.TakenSlice, why string) string {
	text := fmt.Sprintf("%s: slice %s of NodeSlicePool %s stays with node %s: %s. Another node may get it once that pool is empty; ",
		v1alpha1.ReasonSliceKept, slice.Range, pool, slice.Node, why)
	if slice.By == "" {
		return text + "nothing is to be done."
	}
	return text + fmt.Sprintf("node %s was to get it and has none of this write: it gets another one at the next change of the nodes.", slice.By)
}

// emit writes an event for the NodeSlicePool, limited for each slice. A dry run leaves no trace.
func (k *NodeSliceGuard) emit(req *admission.Request, pool *ipam.SlicePool, slice *ipam.TakenSlice, note string) {
	if req.DryRun != nil && *req.DryRun || !k.events.Allow(pool.UID+types.UID("/"+slice.Range), v1alpha1.ReasonSliceKept) {
		return
	}
	k.recorder.Eventf(k.options.Slices.SlicePoolReference(pool), slice.NodeReference(), corev1.EventTypeWarning, string(v1alpha1.ReasonSliceKept), "KeepSlice", "%s", eventlimit.Note(note))
}
