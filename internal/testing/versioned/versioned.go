// SPDX-License-Identifier: Apache-2.0

// Package versioned labels specs by the features of an API server that they are about, and matches those that another one cannot show.
package versioned

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

const needs, lacks = "needs", "lacks"

// Needs is the label of specs that only an API server that serves the feature can show.
func Needs(f kubeversion.Feature) string { return needs + ":" + f.Name }

// Lacks is the label of specs of what holds instead where the API server does not serve the feature.
func Lacks(f kubeversion.Feature) string { return lacks + ":" + f.Name }

// split names the features by whether the API server serves them.
func split(server *version.Version) (served, unserved []string) {
	for _, f := range kubeversion.Features {
		if f.ServedBy(server) {
			served = append(served, f.Name)
		} else {
			unserved = append(unserved, f.Name)
		}
	}
	return served, unserved
}

// LeftOut is the label filter that matches the specs that an API server of that version cannot show.
func LeftOut(server *version.Version) string {
	var parts []string
	served, unserved := split(server)
	if len(unserved) > 0 {
		parts = append(parts, needs+": containsAny {"+strings.Join(unserved, ", ")+"}")
	}
	if len(served) > 0 {
		parts = append(parts, lacks+": containsAny {"+strings.Join(served, ", ")+"}")
	}
	return "(" + strings.Join(parts, " || ") + ")"
}

// Why is what the specs of LeftOut are about.
func Why(server *version.Version) string {
	var parts []string
	served, unserved := split(server)
	if len(unserved) > 0 {
		parts = append(parts, "which need what it does not serve ("+strings.Join(unserved, ", ")+")")
	}
	if len(served) > 0 {
		parts = append(parts, "which are about an API server without what it serves ("+strings.Join(served, ", ")+")")
	}
	return strings.Join(parts, ", or ")
}
