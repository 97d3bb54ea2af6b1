// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/nodewait"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

// The exit codes. Any other failure is failedCode.
const (
	failedCode   = 1
	timedOutCode = 3
	stoppedCode  = 4
)

// exitCode prints an error and returns the exit code. A wait that a signal ended needs no explanation.
func exitCode(w io.Writer, err error) int {
	if errors.Is(err, nodewait.ErrStopped) {
		return stoppedCode
	}
	fmt.Fprintln(w, "error:", err)
	var waited *nodewait.TimeoutError
	var uninstalled *uninstall.TimeoutError
	switch {
	case errors.Is(err, uninstall.ErrStopped):
		return stoppedCode
	case errors.As(err, &waited), errors.As(err, &uninstalled):
		return timedOutCode
	}
	return failedCode
}
