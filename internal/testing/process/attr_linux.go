// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// sysProcAttr puts the child into a process group of its own, so that a Ctrl-C
// at the terminal reaches only the parent, which then stops its children in
// order. SIGKILL as death signal: no process is left to wait for anything
// gentler.
func sysProcAttr(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
