// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stored is one version of an object. It is never changed.
type stored struct {
	kind     *Kind
	object   object
	revision uint64

	// text and message are the object in JSON and in protobuf, once a client asked for them.
	text, message func() ([]byte, error)
}

// event is one change; old or new is nil. new of a deletion is nil, and its last state is old under the revision of the deletion.
type event struct {
	revision uint64
	kind     *Kind
	old, new *stored
}

func key(namespace, name string) string { return namespace + "/" + name }

func (q *request) key() string { return key(q.namespace, q.name) }

func (s *Server) find(q *request) *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[q.kind][q.key()]
}

// newUID is a UID that no object has had: the next one of this name, so that it does not depend on what is created at the same time.
func (s *Server) newUID(plural, namespace, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := plural + "/" + key(namespace, name)
	s.created[of]++
	h := fnv.New32a()
	_, _ = h.Write([]byte(of))
	return fmt.Sprintf("%08x-0000-4000-8000-%012d", h.Sum32(), s.created[of])
}

// seal makes the version of an object that is stored under a revision. The object is not changed.
func (k *Kind) seal(o object, revision uint64) *stored {
	next := maps.Clone(o)
	metadata := maps.Clone(next["metadata"].(object))
	metadata["resourceVersion"] = strconv.FormatUint(revision, 10)
	if revision == 0 { // of a dry run
		delete(metadata, "resourceVersion")
	}
	next["metadata"] = metadata
	return &stored{kind: k, object: next, revision: revision, text: sync.OnceValues(func() ([]byte, error) { return json.Marshal(next) }),
		message: sync.OnceValues(func() ([]byte, error) { return k.message(next) })}
}

// plan is a write that was judged on one version of the object: its states in order, and whether it is then removed.
type plan struct {
	old    *stored
	states []object
	remove bool
	code   int
	// result is returned instead of the last state.
	result func(last *stored) ([]byte, error)
}

// commit carries a plan out. It is false if the object is no longer the one that the plan was made for.
func (s *Server) commit(q *request, p *plan) (*stored, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[q.kind][q.key()] != p.old {
		return nil, false
	}
	if q.isDryRun() {
		return q.rehearse(p), true
	}
	last := p.old
	for _, o := range p.states {
		s.revision++
		next := q.kind.seal(o, s.revision)
		s.objects[q.kind][q.key()] = next
		s.publish(q, event{revision: s.revision, kind: q.kind, old: last, new: next})
		last = next
	}
	if !p.remove {
		return last, true
	}
	s.revision++
	gone := q.kind.seal(last.object, s.revision)
	delete(s.objects[q.kind], q.key())
	s.publish(q, event{revision: s.revision, kind: q.kind, old: gone})
	return gone, true
}

// rehearse serves a dry run: the last state, stored nowhere.
func (q *request) rehearse(p *plan) *stored {
	if len(p.states) == 0 {
		return p.old
	}
	var revision uint64
	if p.old != nil {
		revision = p.old.revision
	}
	return q.kind.seal(p.states[len(p.states)-1], revision)
}

func (s *Server) publish(q *request, e event) {
	s.history = append(s.history, e)
	if e.kind.Group == admissionregistrationv1.GroupName {
		s.force = nil
	}
	if s.options.OnChange != nil {
		change := Change{Kind: e.kind, User: q.user.GetName(), Client: q.client, Revision: e.revision}
		if e.old != nil {
			change.Old = e.old.object
		}
		if e.new != nil {
			change.New = e.new.object
		}
		s.options.OnChange(change)
	}
	for _, stream := range s.streams {
		stream.see(e)
	}
}

// State is what a server has stored, and how far it is. It is not changed by what becomes of the server.
type State struct {
	revision, serial, compacted uint64
	created                     map[string]int
	objects                     map[*Kind]map[string]*stored
	history                     []event
	compiled                    *compiledAdmission
	force                       *inForce
}

// State is that of the server now: other servers may begin with it.
func (s *Server) State() *State {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := &State{revision: s.revision, serial: s.serial, compacted: s.compacted, created: maps.Clone(s.created), history: slices.Clone(s.history), objects: map[*Kind]map[string]*stored{},
		compiled: s.compiled, force: s.force}
	for k, objects := range s.objects {
		now.objects[k] = maps.Clone(objects)
	}
	return now
}

// Compact forgets all versions before the present one: reads of them get 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.compacted = nil, s.revision
}

// at is the state of a kind at a revision that was not compacted.
func (s *Server) at(k *Kind, revision uint64) map[string]*stored {
	state := maps.Clone(s.objects[k])
	for i := len(s.history) - 1; i >= 0 && s.history[i].revision > revision; i-- {
		e := s.history[i]
		if e.kind != k {
			continue
		}
		at := e.old
		if at == nil {
			at = e.new
		}
		u := unstructured.Unstructured{Object: at.object}
		if e.old == nil {
			delete(state, key(u.GetNamespace(), u.GetName()))
		} else {
			state[key(u.GetNamespace(), u.GetName())] = e.old
		}
	}
	return state
}

// All are the objects of a resource, by namespace/name. They may not be written to.
func (s *Server) All(plural string) map[string]*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*unstructured.Unstructured{}
	for k, objects := range s.objects {
		if k.Plural != plural {
			continue
		}
		for name, o := range objects {
			all[name] = &unstructured.Unstructured{Object: o.object}
		}
	}
	return all
}

// Revision is that of the newest change.
func (s *Server) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Find is an object of a resource; nil if there is none. It may not be written to.
func (s *Server) Find(plural, namespace, name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, objects := range s.objects {
		if o := objects[key(namespace, name)]; k.Plural == plural && o != nil {
			return &unstructured.Unstructured{Object: o.object}
		}
	}
	return nil
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
