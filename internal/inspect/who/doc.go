// SPDX-License-Identifier: Apache-2.0

// Package who says, purely, who has an address now and who had it before: from the pools, from the records, from the pods that show
// it, and from the events of ours that name it. A name never identifies; who is only known by name is told so.
package who
