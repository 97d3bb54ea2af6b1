// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
)

const (
	// eventsPerPass bounds the events of one pass; the rest follows in later passes.
	eventsPerPass = 25
	// eventTimeout bounds the writes of one pass.
	eventTimeout = 10 * time.Second
	// maxNameOfNode leaves space for the suffix of an event's name.
	maxNameOfNode = 200
	// controllerName is the reporting controller of all events of the agent.
	controllerName = "holdfast-agent"
	// maxInstance is the longest name of a reporting instance.
	maxInstance = 128
)

// eventWriter writes one event on the Node for each finding, and retries until it succeeds. The name of an event is derived from its finding:
// a restarted agent does not report it twice, and two findings of one kind are two events, which the event recorder of client-go would
// aggregate.
type eventWriter struct {
	writer   client.Writer
	nodeName string
	clock    clock.PassiveClock
	log      logr.Logger
	// queue are the announcements that are not written yet, in order.
	queue []announcement
	// failing: the last write failed and was logged.
	failing bool
}

type announcement struct {
	eventType string
	reason    v1alpha1.Reason
	note      string
	digest    string
}

func newAnnouncement(eventType string, reason v1alpha1.Reason, note string, about identity) announcement {
	hash := sha256.New()
	for _, part := range append(identity{string(reason)}, about...) {
		// The length prefix keeps the encoding of identities unambiguous.
		_, _ = hash.Write([]byte{byte(len(part) >> 8), byte(len(part))})
		_, _ = hash.Write([]byte(part))
	}
	return announcement{eventType: eventType, reason: reason, note: note, digest: hex.EncodeToString(hash.Sum(nil)[:16])}
}

func (w *eventWriter) announce(a announcement) { w.queue = append(w.queue, a) }

// withdraw removes an announcement that was not written yet.
func (w *eventWriter) withdraw(a announcement) {
	w.queue = slices.DeleteFunc(w.queue, func(queued announcement) bool { return queued.digest == a.digest })
}

// write writes queued events while the agent may respond for the Node.
func (w *eventWriter) write(ctx context.Context, nodeUID types.UID) {
	if nodeUID == "" || len(w.queue) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	for range min(len(w.queue), eventsPerPass) {
		err := w.writer.Create(ctx, w.event(w.queue[0], nodeUID))
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) {
			if !w.failing {
				w.log.Error(err, "Writing events about the stores of this node; trying again", "left", len(w.queue))
			}
			w.failing = true
			return
		}
		w.failing = false
		if apierrors.IsInvalid(err) {
			w.log.Error(err, "An event about a store of this node was refused", "note", w.queue[0].note)
		}
		w.queue = w.queue[1:]
	}
}

func (w *eventWriter) event(a announcement, nodeUID types.UID) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: strings.TrimRight(eventlimit.Cut(w.nodeName, maxNameOfNode), ".-") + "." + a.digest},
		EventTime:           metav1.NewMicroTime(w.clock.Now()),
		ReportingController: controllerName,
		ReportingInstance:   eventlimit.Cut(controllerName+"-"+w.nodeName, maxInstance),
		Action:              "AuditStore",
		Reason:              string(a.reason),
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: w.nodeName, UID: nodeUID},
		Note:                eventlimit.Note(a.note),
		Type:                a.eventType,
	}
}
