// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"strings"
	"testing"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// TestTheDefaultReleaseModeIsSaidAlikeEverywhere names every place that says which mode the unsafe-release webhook has by default, so
// that none is left behind when the default changes.
func TestTheDefaultReleaseModeIsSaidAlikeEverywhere(t *testing.T) {
	if defaults().UnsafeReleases.Mode != configv1alpha1.DefaultReleaseMode {
		t.Errorf("the tests of this package expect %s, and the default is %s", defaults().UnsafeReleases.Mode, configv1alpha1.DefaultReleaseMode)
	}
	installed, err := LoadManager("../../config/manager/config.yaml")
	if err != nil || installed.UnsafeReleases.Mode != configv1alpha1.DefaultReleaseMode {
		t.Errorf("config/manager/config.yaml has mode %s (%v), and the default is %s", installed.UnsafeReleases.Mode, err, configv1alpha1.DefaultReleaseMode)
	}
	kubelet := &configv1alpha1.ManagerConfiguration{Evidence: configv1alpha1.EvidenceKubelet}
	configv1alpha1.SetDefaults(kubelet)
	if kubelet.UnsafeReleases.Mode != configv1alpha1.DefaultKubeletReleaseMode {
		t.Errorf("with evidence Kubelet the mode is %s, and nothing else reclaims orphans: expected %s", kubelet.UnsafeReleases.Mode, configv1alpha1.DefaultKubeletReleaseMode)
	}
	page, err := os.ReadFile("../../docs/reference/configuration.md")
	if row := "| `unsafeReleases.mode` | `" + string(configv1alpha1.DefaultReleaseMode) + "` |"; err != nil || !strings.Contains(string(page), row) {
		t.Errorf("docs/reference/configuration.md has no row that begins with %q (%v)", row, err)
	}
}
