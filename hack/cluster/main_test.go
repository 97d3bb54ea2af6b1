// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestEveryCommandHasHelp(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || c.Long == "" && !c.Hidden {
			t.Errorf("%s has no help", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newCommand())
}

// These are called by name from elsewhere; README.md promises them.
func TestCommandNames(t *testing.T) {
	for _, path := range []string{
		"up", "down", "status", "import", "exec", "logs",
		"node freeze", "node thaw", "node cut-off", "node reconnect", "node kill", "node start", "node reboot", "node replace",
		"containerd stop", "containerd start", "kubelet stop", "kubelet start", "kube-proxy stop", "kube-proxy start",
		"control-plane stop", "control-plane start", "control-plane freeze", "control-plane thaw",
	} {
		found, rest, err := newCommand().Find(strings.Fields(path))
		if err != nil || len(rest) > 0 || found.CommandPath() != "holdfast-cluster "+path {
			t.Errorf("%s: found %s, %v", path, found.CommandPath(), err)
		}
	}
}

func TestArguments(t *testing.T) {
	got, err := argumentFlags{"kube-apiserver:v=4", "kube-apiserver:--audit-log-path=-", "etcd:x=a=b:c"}.parse()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{"kube-apiserver": {"v": "4", "audit-log-path": "-"}, "etcd": {"x": "a=b:c"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, wrong := range []string{"v=4", "kube-apiserver:v", ":v=4", "kube-apiserver:=4", ""} {
		if _, err := (argumentFlags{wrong}).parse(); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
