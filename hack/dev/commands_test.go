// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestEveryActionOfANodeSaysWhatItPlays(t *testing.T) {
	node, _, err := newCommand().Find([]string{"node"})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, action := range node.Commands() {
		found[action.Name()] = true
		if action.Short == "" || !strings.Contains(strings.ToLower(action.Long), action.Name()) || action.Example == "" {
			t.Errorf("%s has no short help, no example, or a long help that does not tell of it:\n%s", action.Name(), action.Long)
		}
		if err := action.Args(&cobra.Command{}, nil); err == nil {
			t.Errorf("%s does not ask for a node", action.Name())
		}
	}
	for _, want := range []string{"freeze", "thaw", "cut-off", "reconnect", "kill", "start", "reboot", "replace", "cut-cni", "mend-cni", "stop-agent", "start-agent"} {
		if !found[want] {
			t.Errorf("there is no action %s", want)
		}
	}
}

func TestDemoListsItsScenarios(t *testing.T) {
	out, err := execute(t, "demo", "--list")
	if err != nil || !strings.Contains(out, "slice-handed-on ") || strings.Count(out, "\n") < 12 {
		t.Errorf("error %v, list:\n%s", err, out)
	}
}

func TestDemoRefusesAScenarioThatItDoesNotHave(t *testing.T) {
	_, err := execute(t, "demo", "moon", "--root", t.TempDir(), "--dir", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), `no scenario "moon"`) || !strings.Contains(err.Error(), "slice-handed-on") {
		t.Errorf("error %v, want one that lists the scenarios", err)
	}
}
