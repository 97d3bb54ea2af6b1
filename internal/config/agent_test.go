// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

const agentHeader = "apiVersion: config.holdfast.dev/v1alpha1\nkind: AgentConfiguration\n"

func agentDefaults() *configv1alpha1.AgentConfiguration {
	return &configv1alpha1.AgentConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "config.holdfast.dev/v1alpha1", Kind: "AgentConfiguration"},
		Runtime:  configv1alpha1.AgentRuntime{Timeout: duration(10 * time.Second), ListInterval: duration(10 * time.Second)},
		Delays:   configv1alpha1.AgentDelays{SandboxCreationMax: duration(10 * time.Minute)},
		Machine: configv1alpha1.AgentMachine{MachineIDFile: "/etc/machine-id", BootIDFile: "/proc/sys/kernel/random/boot_id",
			SystemUUIDFile: "/sys/class/dmi/id/product_uuid"},
		Stores: configv1alpha1.AgentStores{Interval: duration(30 * time.Second)},
		Server: configv1alpha1.AgentServer{MetricsBindAddress: ":8443", HealthProbeBindAddress: ":8081"},
	}
}

func TestParseAgentAccepts(t *testing.T) {
	cases := map[string]struct {
		content string
		change  func(*configv1alpha1.AgentConfiguration)
	}{
		"a file that says only what it is gets every default": {content: agentHeader},
		"a given value wins over the default": {
			content: agentHeader + "runtime: {endpoint: unix:///run/crio/crio.sock, listInterval: 1s}\n",
			change: func(c *configv1alpha1.AgentConfiguration) {
				c.Runtime.Endpoint, c.Runtime.ListInterval = "unix:///run/crio/crio.sock", duration(time.Second)
			},
		},
		"containerd's state is not beside its socket": {
			content: agentHeader + "runtime: {stateDirectory: /var/lib/containerd-state}\n",
			change:  func(c *configv1alpha1.AgentConfiguration) { c.Runtime.StateDirectory = "/var/lib/containerd-state" },
		},
		"nothing is served": {
			content: agentHeader + "server: {metricsBindAddress: \"0\", healthProbeBindAddress: \"0\"}\n",
			change: func(c *configv1alpha1.AgentConfiguration) {
				c.Server = configv1alpha1.AgentServer{MetricsBindAddress: "0", HealthProbeBindAddress: "0"}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := agentDefaults()
			if tc.change != nil {
				tc.change(want)
			}
			got, err := ParseAgent("the file", []byte(tc.content))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseAgentRefuses(t *testing.T) {
	cases := map[string]struct {
		content string
		want    []string
	}{
		"an empty file":                       {"", []string{"(the file): ", "is empty"}},
		"a file that does not say what it is": {"stores: {}\n", []string{"apiVersion: Required", "kind: Required value: expected AgentConfiguration"}},
		"the manager's file":                  {header, []string{`kind: Unsupported value: "ManagerConfiguration"`}},
		"a field that is not there":           {agentHeader + "evidence: Agent\n", []string{"evidence: ", "unknown field"}},
		"a relative socket":                   {agentHeader + "runtime: {endpoint: containerd.sock}\n", []string{"runtime.endpoint: ", "absolute path"}},
		"a socket of the network":             {agentHeader + "runtime: {endpoint: \"tcp://10.0.0.1:1\"}\n", []string{"runtime.endpoint: "}},
		"a relative state directory":          {agentHeader + "runtime: {stateDirectory: containerd}\n", []string{"runtime.stateDirectory: ", "absolute path of containerd's state directory"}},
		"the whole node as state directory":   {agentHeader + "runtime: {stateDirectory: /./}\n", []string{"runtime.stateDirectory: ", "absolute path of containerd's state directory"}},
		"lists too far apart to be one row":   {agentHeader + "runtime: {listInterval: 2m}\n", []string{"runtime.listInterval: ", "100ms to 1m"}},
		"a call that may last too long":       {agentHeader + "runtime: {timeout: 2m}\n", []string{"runtime.timeout: "}},
		"no time for a sandbox to start":      {agentHeader + "delays: {sandboxCreationMax: 0s}\n", []string{"delays.sandboxCreationMax: ", "greater than 0s"}},
		"a relative file":                     {agentHeader + "machine: {bootIDFile: boot_id}\n", []string{"machine.bootIDFile: ", "absolute path"}},
		"two endpoints on one port":           {agentHeader + "server: {metricsBindAddress: \":1\", healthProbeBindAddress: \":1\"}\n", []string{"server.healthProbeBindAddress: ", "server.metricsBindAddress"}},
		"every mistake is listed":             {agentHeader + "a: 1\nruntime: {timeout: soon}\nb: A\n", []string{"has 3 mistakes", "- a: ", "- runtime.timeout: ", "- b: "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAgent("the file", []byte(tc.content))
			if _, ok := errors.AsType[*InvalidError](err); !ok {
				t.Fatalf("got %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in\n%v", want, err)
				}
			}
		})
	}
}

func TestShippedAgentConfiguration(t *testing.T) {
	installed, err := LoadAgent("../../config/agent/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := agentDefaults()
	want.Runtime.Endpoint = "/run/containerd/containerd.sock"
	want.Machine.MachineIDFile, want.Machine.BootIDFile = "/host/machine-id", "/host/boot-id"
	if diff := cmp.Diff(want, installed); diff != "" {
		t.Errorf("the installation differs from the defaults in more than what is mounted (-want +got)\n%s", diff)
	}
}

func TestWithoutAFileEveryDefaultHolds(t *testing.T) {
	got, err := LoadAgent("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(agentDefaults(), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := CompleteAgent(&configv1alpha1.AgentConfiguration{Server: configv1alpha1.AgentServer{MetricsBindAddress: "A"}}); err == nil {
		t.Error("a wrong configuration of the program was accepted")
	}
	if _, err := LoadAgent("absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestAgentReferenceNamesEveryField keeps docs/reference/agent-configuration.md complete.
func TestAgentReferenceNamesEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/agent-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths("", reflect.ValueOf(&configv1alpha1.AgentConfiguration{}).Elem()) {
		if path != "apiVersion" && path != "kind" && !strings.Contains(string(page), "`"+path+"`") {
			t.Errorf("%s is not on the page", path)
		}
	}
}
