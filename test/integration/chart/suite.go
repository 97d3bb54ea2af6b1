// SPDX-License-Identifier: Apache-2.0

// Package chart installs, upgrades and uninstalls the Helm chart with the real helm on a real control plane. Nodes have no
// kubelet: the pod of the hook is run by the suite, as the real command, with the real token of the pod's own account.
package chart

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

// specTimeout bounds a spec with two uninstallations.
const specTimeout = 5 * time.Minute

var plane, admin = fixture.Plane, fixture.Admin

// The chart brings its definitions, so that there are to be none.
var suite = fixture.NewSuite("chart", fixture.PlaneOne, func(ctx context.Context) {
	fixture.Tool("helm")
	fixture.Command("manager")
	for _, name := range []string{"allnodesqueries.holdfast.dev", "guardednodes.holdfast.dev", "ipallocations.holdfast.dev", "noderesourcepolicies.holdfast.dev"} {
		fixture.Undefine(ctx, name)
	}
})

// helm runs it on the control plane, in the namespace of the release, and gives all that it printed.
func helm(args ...string) (string, error) {
	GinkgoHelper()
	home := GinkgoT().TempDir()
	if slices.Contains(args, chart) && strings.HasPrefix(chart, "oci://") {
		args = append(args, "--plain-http")
	}
	command := exec.Command(fixture.Tool("helm"), append(args, "--namespace="+own, "--kubeconfig="+plane.Kubeconfig())...)
	command.Dir = fixture.Path()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := command.CombinedOutput()
	GinkgoWriter.Printf("helm %s\n%s\n", strings.Join(args, " "), out)
	return string(out), err
}
