// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// node is the folders of a node and of a pod on it.
type node struct{ bin, conf, token, authority, plugin string }

func newNode(t *testing.T) node {
	t.Helper()
	root := t.TempDir()
	n := node{
		bin: filepath.Join(root, "bin"), conf: filepath.Join(root, "net.d"),
		token: filepath.Join(root, "token"), authority: filepath.Join(root, "ca.crt"), plugin: filepath.Join(root, "whereabouts"),
	}
	put(t, n.token, "first\n")
	put(t, n.authority, "authority")
	put(t, n.plugin, "plugin")
	if err := errors.Join(os.Mkdir(n.bin, 0o755), os.Mkdir(n.conf, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODENAME", "node-a")
	t.Setenv("WHEREABOUTS_NAMESPACE", "kube-system")
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	return n
}

func (n node) args(more ...string) []string {
	return append([]string{
		"--plugin", n.plugin, "--bin-dir", n.bin, "--conf-dir", n.conf, "--token-file", n.token, "--ca-file", n.authority,
	}, more...)
}

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// token is the one in the kubeconfig of the node.
func (n node) kubeconfigToken(t *testing.T) string {
	t.Helper()
	var config struct {
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	text := read(t, filepath.Join(n.conf, folder, kubeconfigName))
	if err := yaml.Unmarshal([]byte(text), &config); err != nil || len(config.Users) != 1 {
		t.Fatalf("the kubeconfig has %d users (%v): want 1\n%s", len(config.Users), err, text)
	}
	return config.Users[0].User.Token
}

func TestItPreparesANode(t *testing.T) {
	n := newNode(t)
	t.Setenv("WHEREABOUTS_RECONCILER_CRON", "30 4 * * *")
	if err := run(t.Context(), n.args("--once", "--log-file", "/var/log/whereabouts.log", "--log-level", "debug")); err != nil {
		t.Fatal(err)
	}

	modes := map[string]fs.FileMode{}
	for _, file := range []string{"bin/whereabouts", "net.d/whereabouts.d/whereabouts.conf", "net.d/whereabouts.d/nodename", "net.d/whereabouts.d/whereabouts.kubeconfig"} {
		info, err := os.Stat(filepath.Join(filepath.Dir(n.bin), file))
		if err != nil {
			t.Fatal(err)
		}
		modes[file] = info.Mode()
	}
	wantModes := map[string]fs.FileMode{
		"bin/whereabouts": 0o755, "net.d/whereabouts.d/whereabouts.conf": 0o600, "net.d/whereabouts.d/nodename": 0o600,
		"net.d/whereabouts.d/whereabouts.kubeconfig": 0o600,
	}
	if diff := cmp.Diff(wantModes, modes); diff != "" {
		t.Errorf("files and modes (-want +got):\n%s", diff)
	}
	if got := read(t, filepath.Join(n.bin, "whereabouts")); got != "plugin" {
		t.Errorf("the node's plugin is %q: want a copy of the image's", got)
	}
	if got := read(t, filepath.Join(n.conf, folder, "nodename")); got != "node-a" {
		t.Errorf("the node's name is %q: want node-a, with nothing after it", got)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(n.conf, folder, "whereabouts.conf"))), &config); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"datastore":          "kubernetes",
		"configuration_path": "/etc/cni/net.d/whereabouts.d",
		"kubernetes":         map[string]any{"kubeconfig": "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig"},
		"log_file":           "/var/log/whereabouts.log",
		"log_level":          "debug",

		"reconciler_cron_expression": "30 4 * * *",
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("the plugin's configuration (-want +got):\n%s", diff)
	}
}

func TestTheKubeconfigLeadsToTheAPIServerWithThePodsToken(t *testing.T) {
	n := newNode(t)
	if err := run(t.Context(), n.args("--once")); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(n.conf, folder, kubeconfigName))), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "whereabouts",
		"clusters": []any{map[string]any{"name": "local", "cluster": map[string]any{
			"server": "https://[fd00::1]:443", "certificate-authority-data": base64.StdEncoding.EncodeToString([]byte("authority")),
		}}},
		"users": []any{map[string]any{"name": "whereabouts", "user": map[string]any{"token": "first"}}},
		"contexts": []any{map[string]any{"name": "whereabouts", "context": map[string]any{
			"cluster": "local", "user": "whereabouts", "namespace": "kube-system",
		}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kubeconfig (-want +got):\n%s", diff)
	}
}

// The kubeconfig follows the token, and only then: what another process writes into it stays until the token changes.
func TestItFollowsTheToken(t *testing.T) {
	n := newNode(t)
	s, err := parse(n.args())
	if err != nil {
		t.Fatal(err)
	}
	current, err := s.readCredentials()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan struct{})
	go func() {
		s.follow(ctx, ticks, current)
		close(ended)
	}()
	// A second tick is taken when the work of the first is done.
	look := func() {
		ticks <- time.Time{}
		ticks <- time.Time{}
	}
	if err := s.writeKubeconfig(credentials{token: "another", authority: "theirs"}); err != nil {
		t.Fatal(err)
	}
	look()
	if got := n.kubeconfigToken(t); got != "another" {
		t.Errorf("with an unchanged token the kubeconfig was written again, with %q", got)
	}
	put(t, n.token, "second")
	look()
	if got := n.kubeconfigToken(t); got != "second" {
		t.Errorf("after the token was renewed the kubeconfig has %q: want the second", got)
	}
	put(t, n.token, "")
	look()
	if got := n.kubeconfigToken(t); got != "second" {
		t.Errorf("while the token is empty the kubeconfig has %q: want the last good one", got)
	}
	put(t, n.token, "third")
	look()
	if got := n.kubeconfigToken(t); got != "third" {
		t.Errorf("after the token came back the kubeconfig has %q: want the third", got)
	}
	if err := s.writeKubeconfig(credentials{token: "another", authority: "theirs"}); err != nil {
		t.Fatal(err)
	}
	look()
	if got := n.kubeconfigToken(t); got != "another" {
		t.Errorf("long after a change the kubeconfig was written again, with %q", got)
	}
	cancel()
	<-ended
}

func TestARunningPluginIsReplacedAsAWhole(t *testing.T) {
	n := newNode(t)
	target := filepath.Join(n.bin, "whereabouts")
	put(t, target, "old")
	running, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	if err := run(t.Context(), n.args("--once")); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, len("old"))
	if _, err := running.Read(old); err != nil || string(old) != "old" {
		t.Errorf("who runs the old plugin now reads %q (%v): want the old one", old, err)
	}
	left, err := os.ReadDir(n.bin)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder of the plugins has %v (%v): want the plugin only", left, err)
	}
}

func TestItRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(*testing.T, node)
		args   []string
		want   string
	}{
		"a pod that does not know its node": {
			func(t *testing.T, _ node) { t.Setenv("NODENAME", "") }, nil, "the node's name (NODENAME) is not set",
		},
		"a pod without the pools' namespace": {
			func(t *testing.T, _ node) { t.Setenv("WHEREABOUTS_NAMESPACE", "") }, nil, "(WHEREABOUTS_NAMESPACE) is not set",
		},
		"what runs outside of a cluster": {
			func(t *testing.T, _ node) { t.Setenv("KUBERNETES_SERVICE_HOST", "") }, nil, "the API server",
		},
		"an empty token": {func(t *testing.T, n node) { put(t, n.token, "\n") }, nil, "expected a token and a certificate"},
		"an argument":    {func(*testing.T, node) {}, []string{"now"}, `unexpected argument "now"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			test.change(t, n)
			err := run(t.Context(), n.args(append([]string{"--once"}, test.args...)...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
		})
	}
}
