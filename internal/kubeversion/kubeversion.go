// SPDX-License-Identifier: Apache-2.0

// Package kubeversion states which versions of Kubernetes Holdfast supports. It is pure.
package kubeversion

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// Oldest and Newest are the supported minor versions; docs/compatibility.md says which of them were tested.
	Oldest = "1.31"
	Newest = "1.37"
)

// Check refuses an API server that is older than Oldest, or whose version cannot be read.
func Check(server string) error {
	found, err := version.ParseGeneric(server)
	if err != nil {
		return fmt.Errorf("the API server's version is %q: expected one like v%s.0", server, Oldest)
	}
	if found.LessThan(version.MustParseGeneric(Oldest)) {
		return fmt.Errorf("the API server is Kubernetes %s: Holdfast needs %s or later; upgrade the cluster", server, Oldest)
	}
	return nil
}

// CEL is the compatibility version with which an API server checks expressions that are new to it: one minor version behind its own,
// so that it can be rolled back (k8s.io/apiserver/pkg/cel/environment).
func CEL(server *version.Version) *version.Version { return server.SubtractMinor(1) }
