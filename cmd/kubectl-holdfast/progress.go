// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// progress says, once a second from the second second on, what a longer read is at.
type progress struct {
	out  io.Writer
	now  func() time.Time
	last time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	return &progress{out: out, now: now, last: now()}
}

func (p *progress) say(format string, args ...any) {
	if now := p.now(); now.Sub(p.last) >= time.Second {
		p.last = now
		fmt.Fprintf(p.out, "… "+format+"\n", args...)
	}
}

// newWarnings prints each warning of the API server once: with the mode Warn, the guard of releases speaks by them.
func newWarnings(out io.Writer) rest.WarningHandler {
	return rest.NewWarningWriter(&locked{out: out}, rest.WarningWriterOptions{Deduplicate: true})
}

// locked lets several requests write.
type locked struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *locked) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(text)
}
