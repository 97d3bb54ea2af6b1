// SPDX-License-Identifier: Apache-2.0

// Package integration_test runs the suites of the folders beside it, each on a clean control plane (test/fixture).
package integration_test

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/test/fixture"

	_ "github.com/holdfast-dev/holdfast/test/integration/allocation"
	_ "github.com/holdfast-dev/holdfast/test/integration/bootstrap"
	_ "github.com/holdfast-dev/holdfast/test/integration/chart"
	_ "github.com/holdfast-dev/holdfast/test/integration/handshake"
	_ "github.com/holdfast-dev/holdfast/test/integration/lifecycle"
	_ "github.com/holdfast-dev/holdfast/test/integration/nodepolicy"
	_ "github.com/holdfast-dev/holdfast/test/integration/noderesources"
	_ "github.com/holdfast-dev/holdfast/test/integration/nodewait"
	_ "github.com/holdfast-dev/holdfast/test/integration/plugin"
	_ "github.com/holdfast-dev/holdfast/test/integration/policies"
	_ "github.com/holdfast-dev/holdfast/test/integration/protection"
	_ "github.com/holdfast-dev/holdfast/test/integration/releaseadmission"
	_ "github.com/holdfast-dev/holdfast/test/integration/shadow"
	_ "github.com/holdfast-dev/holdfast/test/integration/uninstall"
	_ "github.com/holdfast-dev/holdfast/test/integration/whereabouts"
)

var _ = ReportAfterSuite("suites", func(report Report) { fixture.Table(os.Stdout, report) })

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	fixture.Register()
	RunSpecs(t, "Suites on a control plane")
}
