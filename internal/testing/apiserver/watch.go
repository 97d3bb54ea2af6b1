// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Stream is one watch. It has no time limit: timeoutSeconds of the request is ignored, and the scheduler cuts it instead.
type Stream struct {
	server  *Server
	q       *request
	sel     selector
	context context.Context //nolint:containedctx // a response body ends with the request

	// guarded by the server's mutex
	pending [][]byte

	frames chan []byte
	ended  chan struct{}
	once   sync.Once
	rest   []byte
}

// streamCapacity is how many events a client may leave unread; a simulation has fewer.
const streamCapacity = 1 << 14

func (s *Server) watch(q *request) (*Stream, error) {
	sel, err := q.selector()
	if err != nil {
		return nil, err
	}
	w := &Stream{server: s, q: q, sel: sel, context: q.http.Context(), frames: make(chan []byte, streamCapacity), ended: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.startStream(w); err != nil {
		return nil, err
	}
	s.streams = append(s.streams, w)
	return w, nil
}

// startStream sends what the client asked to begin with.
func (s *Server) startStream(w *Stream) error {
	from, initial, err := w.start()
	if err != nil {
		return err
	}
	switch {
	case initial || from == 0:
		for _, name := range slices.Sorted(maps.Keys(s.objects[w.q.kind])) {
			if o := s.objects[w.q.kind][name]; w.sel.matches(o) {
				w.send("ADDED", o)
			}
		}
		if initial {
			w.bookmark(object{metav1.InitialEventsAnnotationKey: "true"})
		}
	case from < s.compacted || from < firstRevision:
		w.fail(apierrors.NewResourceExpired("too old resource version: " + strconv.FormatUint(from, 10)))
	default:
		for _, e := range s.history {
			if e.revision > from {
				w.see(e)
			}
		}
	}
	return nil
}

// start is the version after which the events come, and whether the client asked for the present objects as events.
func (w *Stream) start() (from uint64, initial bool, err error) {
	query := w.q.query
	if version := query.Get("resourceVersion"); version != "" {
		if from, err = strconv.ParseUint(version, 10, 64); err != nil {
			return 0, false, apierrors.NewBadRequest("invalid resource version " + version)
		}
	}
	initial = query.Get("sendInitialEvents") == "true"
	if initial && query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan) {
		return 0, false, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", field.ErrorList{
			field.Forbidden(field.NewPath("resourceVersionMatch"), "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")})
	}
	return from, initial, nil
}

// see queues an event, or sends it where nothing is held.
func (w *Stream) see(e event) {
	if e.kind != w.q.kind {
		return
	}
	was, is := w.sel.matches(e.old), w.sel.matches(e.new)
	var frame []byte
	switch {
	case is && was:
		frame = w.frame("MODIFIED", e.new)
	case is:
		frame = w.frame("ADDED", e.new)
	case was: // deleted, or it left the selector: the last state that matched, under the version of the change
		frame = w.frame("DELETED", w.q.kind.seal(e.old.object, e.revision))
	default:
		return
	}
	if w.server.options.HoldEvents {
		w.pending = append(w.pending, frame)
		return
	}
	w.frames <- frame
}

func (w *Stream) frame(kind string, o *stored) []byte {
	raw, err := w.q.encode(o)
	if err != nil {
		return nil
	}
	return w.framed(kind, raw)
}

func (w *Stream) framed(kind string, raw []byte) []byte {
	if w.q.wantsProtobuf() {
		return protobufFrame(kind, raw)
	}
	return slices.Concat([]byte(`{"type":"`+kind+`","object":`), raw, []byte("}\n"))
}

func (w *Stream) send(kind string, o *stored) { w.frames <- w.frame(kind, o) }

// bookmark reports how far the stream is.
func (w *Stream) bookmark(annotations object) {
	metadata := object{"creationTimestamp": nil}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	w.send("BOOKMARK", w.q.kind.seal(object{"kind": w.q.kind.Kind, "apiVersion": w.q.kind.GroupVersion().String(), "metadata": metadata}, w.server.revision))
}

// fail ends the stream with an error event.
func (w *Stream) fail(err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if raw, err := w.q.failure(&status); err == nil {
		w.frames <- w.framed("ERROR", raw)
	}
}

// Streams are the open watches, in the order in which they began.
func (s *Server) Streams() []*Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.streams)
}

// Name is the client and what it watches: the same in every run.
func (w *Stream) Name() string {
	parts := []string{w.q.client, "watch", w.q.kind.Plural, w.q.namespace, w.q.query.Get("labelSelector"), w.q.query.Get("fieldSelector"), ""}
	if w.IsShort() {
		parts[len(parts)-1] = "for " + w.Limit().String()
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

// Limit is the time limit that the client set; zero without one.
func (w *Stream) Limit() time.Duration {
	seconds, err := strconv.Atoi(w.q.query.Get("timeoutSeconds"))
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// IsShort says whether the limit is so short that the client waits for the bookmark before it. The limits of informers are minutes.
func (w *Stream) IsShort() bool { return w.Limit() > 0 && w.Limit() < time.Minute }

// Pending is how many events are held.
func (w *Stream) Pending() int {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return len(w.pending)
}

// Deliver sends the oldest event that is held.
func (w *Stream) Deliver() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if len(w.pending) > 0 {
		w.frames <- w.pending[0]
		w.pending = w.pending[1:]
	}
}

// Bookmark sends a bookmark, if the client allows them and no event is held.
func (w *Stream) Bookmark() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if len(w.pending) == 0 && w.q.query.Get("allowWatchBookmarks") == "true" {
		w.bookmark(nil)
	}
}

// Cut ends the stream as a broken connection does; what is held is lost.
func (w *Stream) Cut() { _ = w.Close() }

// Expire ends the stream with 410.
func (w *Stream) Expire() {
	w.server.mu.Lock()
	w.pending = nil
	w.fail(apierrors.NewResourceExpired("too old resource version"))
	w.server.mu.Unlock()
}

// Read blocks until there is an event or the stream ends.
func (w *Stream) Read(p []byte) (int, error) {
	if len(w.rest) == 0 {
		select {
		case w.rest = <-w.frames:
		default:
			select {
			case w.rest = <-w.frames:
			case <-w.ended:
				return 0, io.EOF
			case <-w.context.Done(): // an error would be one more event, which controller-runtime's metadata watches leak a goroutine for
				return 0, io.EOF
			}
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// Close ends the stream from the client's side.
func (w *Stream) Close() error {
	w.once.Do(func() {
		close(w.ended)
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		w.server.streams = slices.DeleteFunc(w.server.streams, func(o *Stream) bool { return o == w })
	})
	return nil
}
