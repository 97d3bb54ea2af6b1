// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dieWithParent asks the kernel to kill this process when its parent ends. A
// parent that ended before that is noticed because this process then has
// another one.
func dieWithParent() error {
	parent := os.Getenv(parentVariable)
	if parent == "" {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("asking to end with the parent: %w", err)
	}
	if now := fmt.Sprint(os.Getppid()); now != parent {
		return fmt.Errorf("the parent is process %s, %s says %s: it ended already", now, parentVariable, parent)
	}
	return nil
}
