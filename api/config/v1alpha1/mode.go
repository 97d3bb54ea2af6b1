// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Mode defines whether the manager acts.
type Mode string

// The modes.
const (
	// ModeGuard protects, refuses, releases and repairs.
	ModeGuard Mode = "Guard"
	// ModeShadow observes and judges the same, and only reports what ModeGuard would do.
	ModeShadow Mode = "Shadow"
)

// DefaultMode is what an installation is for.
const DefaultMode = ModeGuard
