// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/sandbox/cri"
)

func TestTheRuntimeIsReadWhereTheConfigurationSays(t *testing.T) {
	const file = `apiVersion: config.holdfast.dev/v1alpha1
kind: AgentConfiguration
runtime:
  endpoint: /run/containerd/containerd.sock
  stateDirectory: /var/lib/containerd-state
  timeout: 3s
`
	c, err := config.ParseAgent("the file", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := cri.Options{Endpoint: "/run/containerd/containerd.sock", StateDir: "/var/lib/containerd-state", Timeout: 3 * time.Second}
	if diff := cmp.Diff(want, runtimeOptions(&c.Runtime)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
