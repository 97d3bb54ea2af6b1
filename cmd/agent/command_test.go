// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		if cmd.Args(cmd, []string{"x"}) == nil {
			t.Errorf("%s ignores an argument", cmd.CommandPath())
		}
	}
}

func TestVersionIsPrinted(t *testing.T) {
	got, err := execute("version")
	if err != nil || !strings.HasPrefix(got, "holdfast agent "+version+" (go") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestConfigPrintsWhatItCanRead(t *testing.T) {
	effective, err := execute("config")
	if err != nil || !strings.Contains(effective, "sandboxCreationMax: 10m0s\n") {
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

func TestWhatStopsTheAgentBeforeItStarts(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	content := "apiVersion: config.holdfast.dev/v1alpha1\nkind: AgentConfiguration\nevidence: Agent\nruntime: {timeout: soon}\n"
	if err := os.WriteFile(wrong, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(t.TempDir(), "absent")
	cases := map[string]struct {
		args []string
		want []string
	}{
		"a wrong file, with every mistake": {[]string{"run", "--config", wrong, "--node-name", "a"}, []string{wrong + " has 2 mistakes", "- evidence: ", "- runtime.timeout: "}},
		"without run, too":                 {[]string{"--config", wrong, "--node-name", "a"}, []string{wrong + " has 2 mistakes"}},
		"a file that is not there":         {[]string{"run", "--config", absent, "--node-name", "a"}, []string{absent}},
		"no node":                          {[]string{"run", "--node-name", ""}, []string{"--node-name", "$NODE_NAME", "spec.nodeName"}},
		"a kubeconfig that is not there":   {[]string{"run", "--kubeconfig", absent, "--node-name", "a"}, []string{absent}},
		"config with a wrong file":         {[]string{"config", "--config", wrong}, []string{wrong + " has 2 mistakes"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := execute(tc.args...)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error:\n%v", want, err)
				}
			}
		})
	}
}
