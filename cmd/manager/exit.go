// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/nodewait"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

// The exit codes. Anything else that goes wrong is failedCode.
const (
	failedCode   = 1
	timedOutCode = 3
	stoppedCode  = 4
)

// exitCode says an error to the user and gives the code to end with. Whoever sends a signal to a wait knows why.
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
