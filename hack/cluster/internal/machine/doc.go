// SPDX-License-Identifier: Apache-2.0

// Package machine is the edge to the Linux kernel: processes that outlive the
// command that started them, cgroups by which all processes of a node are found
// and killed at once, network links, and the namespaces and mounts that make a
// node out of a process.
package machine
