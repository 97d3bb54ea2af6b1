// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"maps"
	"slices"
)

// ForbiddenGroups are the groups that may not be guarded, sorted.
func ForbiddenGroups() []string { return slices.Sorted(maps.Keys(forbiddenGroups)) }
