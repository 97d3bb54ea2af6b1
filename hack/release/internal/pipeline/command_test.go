// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// canceling ends what runs as soon as that prints something.
type canceling context.CancelFunc

func (c canceling) Write(p []byte) (int, error) {
	c()
	return len(p), nil
}

// The grandchild keeps the output open for as long as it lives.
func TestAnInterruptedCommandEndsWithAllThatItStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &run{Options: Options{Progress: canceling(cancel)}, env: os.Environ(), tree: t.TempDir()}
	err := r.command(ctx, nil, "sh", "-c", "sleep 3600 & echo started; wait").Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("got error %v: want one that it was interrupted, and not that something went on", err)
	}
}
