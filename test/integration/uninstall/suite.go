// SPDX-License-Identifier: Apache-2.0

// Package uninstall takes Holdfast out of a real control plane with the real controller manager: everything is installed as
// it is rendered, pods are held, namespaces end, and afterwards every object that the API server has is looked through (invariant I9).
package uninstall

import (
	"time"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	soon = fixture.Soon
	// specTimeout bounds a spec: an installation, and an uninstallation.
	specTimeout = 5 * time.Minute
)

var plane, admin = fixture.Plane, fixture.Admin

var suite = fixture.NewSuite("uninstall", fixture.PlaneTwo, createNode)
