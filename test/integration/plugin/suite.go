// SPDX-License-Identifier: Apache-2.0

// Package plugin runs the built kubectl-holdfast against a real control plane with a real manager, in a healthy state and in
// broken ones, and compares what it prints and how it ends.
package plugin

import (
	"time"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	// specTimeout bounds a spec.
	specTimeout = 5 * time.Minute
	// commandTimeout bounds one run of the command.
	commandTimeout = 3 * time.Minute
)

var plane, admin = fixture.Plane, fixture.Admin

var suite = fixture.NewSuite("plugin", fixture.PlaneOne, install)

// without is about a cluster in which neither Holdfast nor an IPAM is installed.
var without = fixture.NewSuite("plugin-alone", fixture.PlaneOne, undefine)
