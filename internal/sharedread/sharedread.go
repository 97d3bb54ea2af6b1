// SPDX-License-Identifier: Apache-2.0

// Package sharedread makes one live read for all that ask while another one is made. The API server answers a list from its watch cache, which it brings up
// to date ten times a second: lists by the hundred would not be answered sooner. No caller changes what it gets.
package sharedread

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Read is a read of one thing. The zero value is invalid: see New.
type Read[T any] struct {
	// turn is full while a caller reads.
	turn chan struct{}
	// begun counts the reads. last is the newest that succeeded, and lastBegun its number: both belong to the caller with the turn.
	begun     atomic.Int64
	last      T
	lastBegun int64
	// callers is guarded by Each.mu.
	callers int
}

// New makes a Read that nothing was read by.
func New[T any]() *Read[T] { return &Read[T]{turn: make(chan struct{}, 1)} }

// Get returns what read gave, to this caller or to another one, if it began after the call: what is known at the call is older. An error is not shared.
func (r *Read[T]) Get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	before := r.begun.Load()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("waiting for a read that another caller makes: %w", ctx.Err())
	}
	if r.lastBegun > before {
		return r.last, nil
	}
	this := r.begun.Add(1)
	now, err := read(ctx)
	if err == nil {
		r.last, r.lastBegun = now, this
	}
	return now, err
}

// Each has a Read for each key that has callers. The zero value has none.
type Each[K comparable, T any] struct {
	mu    sync.Mutex
	reads map[K]*Read[T]
}

// Get is that of the key's Read.
func (e *Each[K, T]) Get(ctx context.Context, key K, read func(context.Context) (T, error)) (T, error) {
	r := e.join(key)
	defer e.leave(key, r)
	return r.Get(ctx, read)
}

func (e *Each[K, T]) join(key K) *Read[T] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reads == nil {
		e.reads = map[K]*Read[T]{}
	}
	r := e.reads[key]
	if r == nil {
		r = New[T]()
		e.reads[key] = r
	}
	r.callers++
	return r
}

func (e *Each[K, T]) leave(key K, r *Read[T]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.callers--; r.callers == 0 {
		delete(e.reads, key)
	}
}
