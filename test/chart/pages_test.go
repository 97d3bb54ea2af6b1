// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
)

// installing is a command that installs the chart, up to where the chart is; it may be that of a release.
var installing = regexp.MustCompile(`^helm (?:install|upgrade) holdfast \S+`)

// TestHelmTakesTheCommandsOfThePages renders the chart with the values and flags of each command. Helm parses the others.
func TestHelmTakesTheCommandsOfThePages(t *testing.T) {
	commands, err := transcript.Of(os.DirFS(repository), transcript.Template)
	if err != nil {
		t.Fatal(err)
	}
	program, err := helmTool()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(chart)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		home := t.TempDir()
		write(t, filepath.Join(home, "values.yaml"), "platform: rke2\n")
		write(t, filepath.Join(home, "ca.crt"), "-----BEGIN CERTIFICATE-----\n")
		command := c.Command + " --help"
		if installing.MatchString(c.Command) {
			command = installing.ReplaceAllString(c.Command, "helm template holdfast "+folder) + " --kube-version=" + kubeVersion
		}
		run := exec.Command("sh", "-c", `helm() { "$HELM" "$@"; }; `+command)
		run.Dir = home
		run.Env = append(os.Environ(), "HELM="+program, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
		if _, err := output(run); err != nil {
			t.Errorf("%s:%d: %v", c.Page, c.Line, err)
		}
	}
}
