// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// A development cluster with other evidence than an installation would show what no installation does.
func TestADevelopmentClusterHasTheEvidenceOfAnInstallation(t *testing.T) {
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	for evidence, path := range installed {
		configuration, err := config.LoadManager(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if configuration.Evidence != evidence {
			t.Errorf("%s has evidence %s, want %s", path, configuration.Evidence, evidence)
		}
	}
	byDefault := &configv1alpha1.ManagerConfiguration{}
	configv1alpha1.SetDefaults(byDefault)
	if byDefault.Evidence != DefaultEvidence {
		t.Errorf("a development cluster has evidence %s by default, and an installation %s", DefaultEvidence, byDefault.Evidence)
	}
}

func TestShortDelaysReachTheAgents(t *testing.T) {
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	manager := &configv1alpha1.ManagerConfiguration{}
	ShortDelays(manager)
	c := &Cluster{options: Options{Root: root}}
	content, err := c.agentConfiguration(manager)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), agentConfigKey)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	agent, err := config.LoadAgent(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := agent.Delays.SandboxCreationMax; got == nil || got.Duration != shortCreationMax {
		t.Errorf("the agents' sandboxCreationMax is %v, want the manager's %s", got, shortCreationMax)
	}
}

// An older manager refuses a field that it does not know.
func TestAConfigurationNamesNothingThatIsAsInstalled(t *testing.T) {
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{options: Options{Root: root, Dir: t.TempDir()}}
	if err := os.Mkdir(c.path("manager"), 0o700); err != nil {
		t.Fatal(err)
	}
	changed, err := c.configuration(GuardOptions{Evidence: DefaultEvidence, Configure: ShortDelays}, endpoint{webhookPort: 1, healthPort: 2, certDir: "certs"})
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.writeConfiguration(changed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "presets") || !strings.Contains(string(content), "webhookPort: 1") {
		t.Errorf("a default is in the file, or what differs is not:\n%s", content)
	}
	read, err := config.LoadManager(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, read); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}
