// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"
	"testing/synctest"
	"time"
)

// option is something that a step can do.
type option struct {
	name string
	do   func()
}

// step does one thing; it is false if there is nothing to do before time passes.
func (s *Scheduler) step() bool {
	synctest.Wait()
	options := s.possible()
	if len(options) == 0 {
		return false
	}
	chosen := s.choose(options)
	s.mu.Lock()
	s.recorded = append(s.recorded, chosen.name)
	number := len(s.recorded)
	s.mu.Unlock()
	<-time.After(time.Microsecond + time.Duration(s.hash(number, "delay")%uint64(longestDelay)))
	synctest.Wait()
	runtime.Gosched() // a new time slice: the runtime interrupts no goroutine of the step, unless it is long
	chosen.do()
	return true
}

// possible are what is possible now, each under a name of its own.
func (s *Scheduler) possible() []option {
	s.mu.Lock()
	all := make([]option, 0, len(s.waiting))
	for _, w := range s.waiting {
		all = append(all, option{name: w.name, do: func() { s.release(w) }})
	}
	s.mu.Unlock()
	if s.server != nil {
		for _, stream := range s.server.Streams() {
			if stream.Pending() > 0 {
				all = append(all, option{name: stream.Name() + " event", do: stream.Deliver})
			}
		}
	}
	if s.options.Held != nil {
		all = slices.DeleteFunc(all, func(o option) bool { return s.options.Held(o.name) })
	}
	slices.SortStableFunc(all, func(a, b option) int { return cmp.Compare(a.name, b.name) })
	for i, same := 1, 1; i < len(all); i++ {
		if all[i].name != all[i-same].name {
			same = 1
			continue
		}
		all[i].name = fmt.Sprintf("%s #%d", all[i].name, same+1)
		same++
	}
	return all
}

func (s *Scheduler) release(w *waiting) {
	s.mu.Lock()
	s.waiting = slices.DeleteFunc(s.waiting, func(o *waiting) bool { return o == w })
	s.mu.Unlock()
	w.turn <- struct{}{}
}

// lookAhead is how far ahead of its turn a recorded step may be taken.
const lookAhead = 64

// recall takes the first recorded step that is possible now. Those before it are taken when they become possible.
func (s *Scheduler) recall(options []option) (option, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, recorded := range s.left[:min(len(s.left), lookAhead)] {
		for _, o := range options {
			if o.name != recorded {
				continue
			}
			if i > 0 {
				s.derailed++
			}
			s.left = slices.Delete(s.left, i, i+1)
			return o, true
		}
	}
	if len(s.left) > 0 {
		s.derailed++
	}
	return option{}, false
}

// choose takes a recorded step, else the option that the seed says.
func (s *Scheduler) choose(options []option) option {
	if o, found := s.recall(options); found {
		return o
	}
	number := s.number()
	return slices.MinFunc(options, func(a, b option) int { return cmp.Compare(s.hash(number, a.name), s.hash(number, b.name)) })
}

func (s *Scheduler) hash(number int, name string) uint64 {
	var prefix [16]byte
	binary.LittleEndian.PutUint64(prefix[:8], s.options.Seed)
	binary.LittleEndian.PutUint64(prefix[8:], uint64(number))
	return digest(string(prefix[:]) + name)
}

// digest is FNV with a final mix, without which neighboring names have neighboring hashes.
func digest(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
