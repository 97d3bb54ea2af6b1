// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// execute runs the command line and gives what it wrote to standard output.
func execute(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestEverySubcommandHasAnExample(t *testing.T) {
	for _, cmd := range newCommand().Commands() {
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s has no example or no short description", cmd.CommandPath())
		}
		if err := cobra.NoArgs(cmd, []string{"x"}); err != nil && cmd.Args(cmd, []string{"x"}) == nil {
			t.Errorf("%s ignores an argument", cmd.CommandPath())
		}
	}
}

func TestVersionIsPrinted(t *testing.T) {
	got, err := execute("version")
	if err != nil || !strings.HasPrefix(got, "holdfast manager "+version+" (go") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestConfigPrintsWhatItCanRead(t *testing.T) {
	effective, err := execute("config")
	if err != nil || !strings.Contains(effective, "releaseDelay: 3m0s\n") {
		t.Fatalf("got %q, %v", effective, err)
	}
	path := filepath.Join(t.TempDir(), "effective.yaml")
	if err := os.WriteFile(path, []byte(effective), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := execute("config", "--config", path)
	if err != nil || again != effective {
		t.Errorf("the effective configuration does not read as itself: %v\n%s", err, again)
	}
}

func TestAWrongFileStopsTheManagerWithEveryMistake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.yaml")
	content := "apiVersion: config.holdfast.dev/v1alpha1\nkind: ManagerConfiguration\nevidence: Runtime\ndelay: 1s\ncontroller: {concurrency: many}\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--config", path}, {"run", "--config", path}, {"config", "--config", path}} {
		_, err := execute(args...)
		if err == nil {
			t.Fatalf("manager %s accepted the file", strings.Join(args, " "))
		}
		for _, want := range []string{path + " has 3 mistakes", "- delay: ", "- controller.concurrency: ", `- evidence: Unsupported value: "Runtime"`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("manager %s: %q is not in the error:\n%v", strings.Join(args, " "), want, err)
			}
		}
	}
}

func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	if _, err := execute("run", "--kubeconfig", path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}
