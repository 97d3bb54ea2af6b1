// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "syscall"

// sysProcAttr puts the child into a process group of its own, so that a Ctrl-C
// at the terminal reaches only the parent. Only Linux can end a child with its
// parent.
func sysProcAttr(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}
