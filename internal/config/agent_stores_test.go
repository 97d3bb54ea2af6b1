// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

func TestParseAgentAcceptsStores(t *testing.T) {
	got, err := ParseAgent("the file", []byte(agentHeader+`stores:
  interval: 1s
  hostLocal: {dataDirs: [/host/cni/networks, /host/cni/networks-2], networks: [cbr0], reclaim: true}
  aws: {checkpoint: /host/aws-node/ipam.json}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := configv1alpha1.AgentStores{
		Interval:  duration(1e9),
		HostLocal: configv1alpha1.AgentHostLocal{DataDirs: []string{"/host/cni/networks", "/host/cni/networks-2"}, Networks: []string{"cbr0"}, Reclaim: true},
		AWS:       configv1alpha1.AgentAWS{Checkpoint: "/host/aws-node/ipam.json"},
	}
	if diff := cmp.Diff(want, got.Stores); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !got.Stores.Configured() || agentDefaults().Stores.Configured() {
		t.Error("stores are audited where one is named, and only there")
	}
}

func TestParseAgentRefusesStores(t *testing.T) {
	cases := map[string]struct{ content, want string }{
		"no time between two readings":         {"interval: 0s", "stores.interval: "},
		"rows of lists that fall apart":        {"interval: 3m", "stores.interval: "},
		"a relative data directory":            {"hostLocal: {dataDirs: [networks]}", "stores.hostLocal.dataDirs[0]: "},
		"a data directory twice":               {"hostLocal: {dataDirs: [/a/b, /a/b/]}", "stores.hostLocal.dataDirs[1]: "},
		"a data directory below another":       {"hostLocal: {dataDirs: [/a/b, /a]}", "stores.hostLocal.dataDirs[1]: "},
		"a network that is a path":             {"hostLocal: {dataDirs: [/a], networks: [../b]}", "stores.hostLocal.networks[0]: "},
		"a network that is its own folder":     {"hostLocal: {dataDirs: [/a], networks: [..]}", "stores.hostLocal.networks[0]: "},
		"a network twice":                      {"hostLocal: {dataDirs: [/a], networks: [b, b]}", "stores.hostLocal.networks[1]: Duplicate"},
		"a reclaim without networks":           {"hostLocal: {dataDirs: [/a], reclaim: true}", "stores.hostLocal.reclaim: "},
		"a reclaim without a directory":        {"hostLocal: {networks: [b], reclaim: true}", "stores.hostLocal.reclaim: "},
		"a checkpoint that is a relative path": {"aws: {checkpoint: ipam.json}", "stores.aws.checkpoint: "},
		"a checkpoint of another form":         {"aws: {checkpoint: /run/ipam}", "stores.aws.checkpoint: "},
		"a reclaim from AWS":                   {"aws: {checkpoint: /run/ipam.json, reclaim: true}", "stores.aws.reclaim: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAgent("the file", []byte(agentHeader+"stores: {"+tc.content+"}\n"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// TestAgentReferenceNamesEveryStore keeps the stores on docs/reference/agent-configuration.md complete.
func TestAgentReferenceNamesEveryStore(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/agent-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths("stores.", reflect.ValueOf(&configv1alpha1.AgentStores{}).Elem()) {
		if !strings.Contains(string(page), "`"+path+"`") {
			t.Errorf("%s is not on the page", path)
		}
	}
}

func TestStoreComponentsDifferOnlyInTheStores(t *testing.T) {
	cases := map[string]configv1alpha1.AgentStores{
		"audit-host-local": {Interval: duration(30e9), HostLocal: configv1alpha1.AgentHostLocal{DataDirs: []string{"/host/cni/networks"}}},
		"audit-aws-ipamd":  {Interval: duration(30e9), AWS: configv1alpha1.AgentAWS{Checkpoint: "/host/aws-node/ipam.json"}},
	}
	for name, stores := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := LoadAgent("../../config/agent/components/" + name + "/config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			want, err := LoadAgent("../../config/agent/config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			want.Stores = stores
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
