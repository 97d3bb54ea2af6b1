// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// event is one of a watch, as it came.
type event struct {
	Type watch.EventType
	UID  types.UID
	// version is the object's resourceVersion.
	version string
	// endsList: the bookmark behind a streamed list.
	endsList bool
	raw      json.RawMessage
}

func readEvent(raw json.RawMessage) (event, error) {
	var parsed struct {
		Type   watch.EventType              `json:"type"`
		Object metav1.PartialObjectMetadata `json:"object"`
	}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return event{}, err
	}
	return event{Type: parsed.Type, UID: parsed.Object.UID, version: parsed.Object.ResourceVersion, raw: raw,
		endsList: parsed.Object.Annotations[metav1.InitialEventsAnnotationKey] == "true"}, nil
}

// changes are the events that say something about an object.
func (e event) changes() bool {
	return e.Type == watch.Added || e.Type == watch.Modified || e.Type == watch.Deleted
}

// stream is the body of a watch's answer. A goroutine reads the server's events, another one writes them as they are to be
// seen; both end with the body.
type stream struct {
	*io.PipeReader
	faults *WatchFaults
	key    string
	source io.Closer
	closed chan struct{}
	close  func()
	to     *io.PipeWriter
	events chan event
	// listing: the initial events of a streamed list are not over.
	listing bool
	// recent are the last events that were delivered since the list.
	recent []event
}

// newStream begins with the events of an earlier stream in old.
func newStream(f *WatchFaults, key string, source io.ReadCloser, lists bool, old []event) *stream {
	from, to := io.Pipe()
	s := &stream{PipeReader: from, faults: f, key: key, source: source, closed: make(chan struct{}), to: to,
		events: make(chan event), listing: lists, recent: old}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	go s.read(source)
	go s.write()
	return s
}

// Close ends the stream; the client calls it.
func (s *stream) Close() error {
	s.close()
	s.PipeReader.Close()
	return s.source.Close()
}

// read takes the server's answer apart until it ends.
func (s *stream) read(source io.Reader) {
	defer close(s.events)
	for decoder := json.NewDecoder(source); ; {
		var raw json.RawMessage
		if decoder.Decode(&raw) != nil {
			return
		}
		e, err := readEvent(raw)
		if err != nil {
			return
		}
		select {
		case s.events <- e:
		case <-s.closed:
			return
		}
	}
}

// write delivers batch after batch until the server or the client ends the stream, or a fault does.
func (s *stream) write() {
	defer s.source.Close()
	err := s.replay()
	for err == nil {
		batch, open := s.batch()
		if err = s.deliver(batch); err == nil && !open {
			err = io.EOF
		}
	}
	s.faults.ended(s.key, s.recent)
	s.to.CloseWithError(err)
	for range s.events { // the reader must not be left behind
		continue
	}
}

// replay sends the last events again, if the draw has it.
func (s *stream) replay() error {
	if len(s.recent) == 0 || !s.faults.happens(s.faults.options.Replay) {
		return nil
	}
	s.faults.count("replayed", len(s.recent))
	return s.send(s.recent)
}

// remember keeps what was delivered last.
func (s *stream) remember(batch []event) {
	for _, e := range batch {
		if e.changes() {
			s.recent = append(s.recent, e)
		}
	}
	if over := len(s.recent) - s.faults.options.ReplayDepth; over > 0 {
		s.recent = slices.Clone(s.recent[over:])
	}
}

// batch is the next event and those that arrive while it is held back; open is false at the end of the server's answer.
func (s *stream) batch() (batch []event, open bool) {
	first, open := <-s.events
	if !open {
		return nil, false
	}
	batch = []event{first}
	late := time.NewTimer(s.faults.delay())
	defer late.Stop()
	for {
		select {
		case next, more := <-s.events:
			if !more {
				return batch, false
			}
			batch = append(batch, next)
		case <-late.C:
			s.faults.count("delayed", len(batch))
			return batch, true
		case <-s.closed:
			return nil, false
		}
	}
}

// deliver sends a batch as the draw has it.
func (s *stream) deliver(batch []event) error {
	if s.listing {
		// A streamed list is complete or it is none.
		s.listing = !slices.ContainsFunc(batch, func(e event) bool { return e.endsList })
		return s.send(batch)
	}
	f := s.faults
	if len(batch) > 0 && f.happens(f.options.Drop) {
		return s.drop(batch)
	}
	if f.happens(f.options.Merge) {
		merged := merge(batch)
		f.count("merged", len(batch)-len(merged))
		batch = merged
	}
	if len(batch) > 0 && f.happens(f.options.Cut) {
		f.count("cut", 1)
		half := batch[0].raw[:len(batch[0].raw)/2]
		if _, err := s.to.Write(half); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	if err := s.send(batch); err != nil {
		return err
	}
	s.remember(batch)
	return s.replay()
}

// drop loses the batch and what comes within one more delay, and ends the stream; the client has to list again.
func (s *stream) drop(batch []event) error {
	s.faults.expire(s.key)
	s.recent = nil
	lost := len(batch)
	late := time.NewTimer(s.faults.options.MaxDelay)
	defer late.Stop()
	for {
		select {
		case _, open := <-s.events:
			if !open {
				s.faults.count("dropped", lost)
				return io.EOF
			}
			lost++
		case <-late.C:
			s.faults.count("dropped", lost)
			return io.EOF
		case <-s.closed:
			return io.EOF
		}
	}
}

func (s *stream) send(batch []event) error {
	for _, e := range batch {
		if _, err := s.to.Write(append(slices.Clone(e.raw), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// merge leaves out each change of an object that another change, or its deletion, follows.
func merge(batch []event) []event {
	var merged []event
	for at, e := range batch {
		sameObject := func(later event) bool { return later.changes() && later.UID == e.UID }
		if e.Type == watch.Modified && slices.ContainsFunc(batch[at+1:], sameObject) {
			continue
		}
		merged = append(merged, e)
	}
	return merged
}
