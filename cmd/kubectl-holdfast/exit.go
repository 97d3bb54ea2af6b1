// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

// The exit codes, the same for all commands (exitCodes documents them).
const (
	failedCode    = 1
	attentionCode = 2
	timedOutCode  = 3
	stoppedCode   = 4
	refusedCode   = 5
)

const exitCodes = `Exit codes:
  0  done, and nothing that needs a look
  1  an error: wrong flags, a missing right, no response; nothing can be concluded
  2  found something: a pod is held, a contradiction, a check that failed
  3  the time-out is over
  4  stopped by a signal
  5  refused: it was not safe, or there was no consent; no address was released, no finalizer removed`

// errAttention ends a command of which the report shows everything.
var errAttention = errors.New("something was found that needs a look")

// A refusedError is why no address was released, and no finalizer removed.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

func refuse(format string, args ...any) error {
	return &refusedError{why: fmt.Sprintf(format, args...)}
}

// exitCode shows an error to the user and returns the code to end with.
func exitCode(w io.Writer, err error) int {
	if errors.Is(err, errAttention) {
		return attentionCode
	}
	fmt.Fprintln(w, "error:", err)
	_, refused := errors.AsType[*refusedError](err)
	_, timedOut := errors.AsType[*uninstall.TimeoutError](err)
	switch {
	case refused:
		return refusedCode
	case errors.Is(err, uninstall.ErrStopped), errors.Is(err, context.Canceled):
		return stoppedCode
	case timedOut, errors.Is(err, context.DeadlineExceeded):
		return timedOutCode
	}
	return failedCode
}
