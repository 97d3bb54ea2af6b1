// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/util/validation/field"

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

func validateMode(mode Mode, path *field.Path) field.ErrorList {
	if mode != ModeGuard && mode != ModeShadow {
		return field.ErrorList{field.NotSupported(path, mode, []Mode{ModeGuard, ModeShadow})}
	}
	return nil
}
