// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/nodewait"
)

func TestWaitNodeResourceNamesEveryWrongFlag(t *testing.T) {
	t.Setenv(nodeNameVariable, "")
	absent, empty := filepath.Join(t.TempDir(), "absent"), filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		args []string
		want []string
	}{
		"nothing is said": {
			want: []string{"give --policy or --resource", "give --node, or set $NODE_NAME"},
		},
		"all that can be wrong at once": {
			args: []string{"--policy", "p", "--resource", "nodes", "--if-missing", "x", "--timeout", "-1s", "--machine-id-file", absent},
			want: []string{"give --policy or --resource", "give --node", `--if-missing is "x": expected wait or proceed`,
				"--timeout is -1s: expected a positive duration", `--resource is "nodes": expected PLURAL.GROUP or PLURAL.VERSION.GROUP`,
				"--machine-id-file: open " + absent},
		},
		"an annotation beside a policy": {
			args: []string{"--policy", "p", "--node", "n", "--uid-annotation", "a/b"},
			want: []string{"--uid-annotation needs --resource"},
		},
		"a machine ID that says nothing": {
			args: []string{"--policy", "p", "--node", "n", "--machine-id-file", empty},
			want: []string{empty + " is empty"},
		},
		"an argument": {
			args: []string{"--policy", "p", "--node", "n", "nodenetworkconfigs"},
			want: []string{`unknown command "nodenetworkconfigs"`},
		},
		"a kubeconfig that is not there": {
			args: []string{"--policy", "p", "--node", "n", "--kubeconfig", absent},
			want: []string{"reading the kubeconfig " + absent},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := execute(append([]string{"wait-node-resource"}, tc.args...)...)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error:\n%v", want, err)
				}
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(tc.want) {
				t.Errorf("%d mistakes, want %d:\n%v", lines, len(tc.want), err)
			}
		})
	}
}

func TestWaitNodeResourceReadsItsFlags(t *testing.T) {
	t.Setenv(nodeNameVariable, "from-the-pod")
	file := filepath.Join(t.TempDir(), "machine-id")
	if err := os.WriteFile(file, []byte("4c4c4544\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		args []string
		want nodewait.Options
	}{
		"a policy alone": {
			args: []string{"--policy", "p"},
			want: nodewait.Options{Policy: "p", Node: "from-the-pod", IfMissing: nodewait.Wait, Timeout: 10 * time.Minute},
		},
		"everything": {
			args: []string{"--resource", "hostsubnets.v1.network.openshift.io", "--uid-annotation", "a/b", "--node", "n", "--namespace", "s", "--name", "o",
				"--if-missing", "proceed", "--timeout", "0", "--machine-id-file", file},
			want: nodewait.Options{Resource: schema.GroupVersionResource{Group: "network.openshift.io", Version: "v1", Resource: "hostsubnets"},
				UIDAnnotation: "a/b", Node: "n", Namespace: "s", Name: "o", IfMissing: nodewait.Proceed, MachineID: "4c4c4544"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &waitOptions{}
			cmd := newWaitNodeResourceCommand()
			cmd.ResetFlags()
			o.addFlags(cmd.Flags())
			if err := cmd.ParseFlags(tc.args); err != nil {
				t.Fatal(err)
			}
			got, err := o.complete()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseResource(t *testing.T) {
	cases := map[string]schema.GroupVersionResource{
		"nodenetworkconfigs.v1alpha.acn.azure.com": {Group: "acn.azure.com", Version: "v1alpha", Resource: "nodenetworkconfigs"},
		"nodenetworkconfigs.acn.azure.com":         {Group: "acn.azure.com", Resource: "nodenetworkconfigs"},
		"ciliumnodes.v2.cilium.io":                 {Group: "cilium.io", Version: "v2", Resource: "ciliumnodes"},
		"ciliumnodes.v2beta1.cilium.io":            {Group: "cilium.io", Version: "v2beta1", Resource: "ciliumnodes"},
		"things.vendor.io":                         {Group: "vendor.io", Resource: "things"},
		"things.v1":                                {},
		"things":                                   {},
		"things.":                                  {},
		".v1.acme.io":                              {},
		"":                                         {},
	}
	for text, want := range cases {
		got, err := parseResource(text)
		if want.Empty() {
			if err == nil {
				t.Errorf("%q was read as %v", text, got)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	cases := map[string]struct {
		err  error
		code int
		said string
	}{
		"a time-out":              {&nodewait.TimeoutError{After: time.Minute, State: "there is no Node n", Advice: "Look."}, 3, "error: gave up after 1m0s: there is no Node n\nLook.\n"},
		"a signal, quietly":       {fmt.Errorf("x: %w", nodewait.ErrStopped), 4, ""},
		"an error of the manager": {errors.New("no"), 1, "error: no\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			if code := exitCode(&said, tc.err); code != tc.code || said.String() != tc.said {
				t.Errorf("got %d and %q, want %d and %q", code, said.String(), tc.code, tc.said)
			}
		})
	}
}

func TestWaitNodeResourceDocumentsItself(t *testing.T) {
	got, err := execute("wait-node-resource", "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"manager wait-node-resource [flags]", "Exit codes:\n  0  ready", "  3  the time-out", "  4  stopped by a signal",
		"--policy name", "--resource plural.version.group", "--if-missing wait", "--machine-id-file file", "--timeout duration", "(default 10m0s)"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the help:\n%s", want, got)
		}
	}
}
