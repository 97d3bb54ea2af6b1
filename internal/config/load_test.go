// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

const header = "apiVersion: config.holdfast.dev/v1alpha1\nkind: ManagerConfiguration\n"

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func defaults() *configv1alpha1.ManagerConfiguration {
	return &configv1alpha1.ManagerConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "config.holdfast.dev/v1alpha1", Kind: "ManagerConfiguration"},
		Mode:       configv1alpha1.ModeGuard,
		Evidence:   configv1alpha1.EvidenceAgent,
		Protection: configv1alpha1.Protection{GuardClusterNetwork: new(false), MultusNamespace: "kube-system"},
		Whereabouts: configv1alpha1.Whereabouts{
			Enabled: new(true), Namespaces: []string{"kube-system"},
		},
		UnsafeReleases: configv1alpha1.UnsafeReleases{
			Mode: configv1alpha1.ReleaseModeDeny, DaemonSets: []string{"kube-system/whereabouts"},
		},
		Audit:      configv1alpha1.Audit{Mode: configv1alpha1.AuditModeRepair},
		Orphans:    configv1alpha1.Orphans{MaxQueries: new(int32(1000))},
		Handshakes: configv1alpha1.Handshakes{ResponseWithin: duration(time.Minute)},
		NodeResources: configv1alpha1.NodeResources{
			Enabled: new(true), Presets: []string{"nodeinfo", "nodenetworkconfigs"}, SweepInterval: duration(10 * time.Minute), DeletesPerSecond: new(float32(2)),
		},
		Delays: configv1alpha1.Delays{
			ReleaseDelay: duration(180 * time.Second), GracePeriodSlack: duration(30 * time.Second),
			SandboxCreationMax: duration(10 * time.Minute), NodeGoneDelay: duration(5 * time.Minute),
			NodeGoneAction: configv1alpha1.NodeGoneRelease,
		},
		Server: configv1alpha1.Server{
			WebhookPort: new(int32(9443)), CertDir: "/tmp/k8s-webhook-server/serving-certs",
			MetricsBindAddress: ":8443", HealthProbeBindAddress: ":8081",
		},
		Controller: configv1alpha1.Controller{
			LeaderElection: new(true), Concurrency: new(int32(32)), SweepInterval: duration(time.Hour),
			QPS: new(float32(0)), Burst: new(int32(0)),
		},
	}
}

func TestParseManagerAccepts(t *testing.T) {
	cases := map[string]struct {
		content string
		change  func(*configv1alpha1.ManagerConfiguration)
	}{
		"a file that says only what it is gets every default": {content: header},
		"null leaves a field and a section to the defaults":   {content: header + "protection:\nevidence: null\ndelays:\n  releaseDelay: null\n"},
		"a given value wins over the default": {
			content: header + "delays: {releaseDelay: 0s}\ncontroller: {leaderElection: false, qps: 20.5, burst: 40}\n",
			change: func(c *configv1alpha1.ManagerConfiguration) {
				c.Delays.ReleaseDelay = duration(0)
				c.Controller.LeaderElection = new(false)
				c.Controller.QPS, c.Controller.Burst = new(float32(20.5)), new(int32(40))
			},
		},
		"one switch makes a shadow of the guard": {
			content: header + "mode: Shadow\n",
			change:  func(c *configv1alpha1.ManagerConfiguration) { c.Mode = configv1alpha1.ModeShadow },
		},
		"Off is a word and not YAML 1.1's false": {
			content: header + "unsafeReleases: {mode: Off}\n",
			change:  func(c *configv1alpha1.ManagerConfiguration) { c.UnsafeReleases.Mode = configv1alpha1.ReleaseModeOff },
		},
		"a list that is given empty stays empty": {
			content: header + "unsafeReleases: {mode: Warn, daemonSets: []}\n",
			change: func(c *configv1alpha1.ManagerConfiguration) {
				c.UnsafeReleases.Mode, c.UnsafeReleases.DaemonSets = configv1alpha1.ReleaseModeWarn, []string{}
			},
		},
		"an alias stands for its anchor": {
			content: header + "protection: {excludedNamespaces: &n [whereabouts]}\nwhereabouts: {namespaces: *n}\n",
			change: func(c *configv1alpha1.ManagerConfiguration) {
				c.Protection.ExcludedNamespaces = []string{"whereabouts"}
				c.Whereabouts.Namespaces = []string{"whereabouts"}
			},
		},
		"JSON is YAML": {
			content: `{"apiVersion":"config.holdfast.dev/v1alpha1","kind":"ManagerConfiguration","server":{"webhookPort":10250}}`,
			change:  func(c *configv1alpha1.ManagerConfiguration) { c.Server.WebhookPort = new(int32(10250)) },
		},
		"endpoints may be off, share a port on different addresses, or take any free port": {
			content: header + "server: {metricsBindAddress: '0', healthProbeBindAddress: '127.0.0.1:9443', webhookHost: 10.0.0.1}\n",
			change: func(c *configv1alpha1.ManagerConfiguration) {
				c.Server.MetricsBindAddress = "0"
				c.Server.HealthProbeBindAddress = "127.0.0.1:9443"
				c.Server.WebhookHost = "10.0.0.1"
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := defaults()
			if tc.change != nil {
				tc.change(want)
			}
			got, err := ParseManager("manager.yaml", []byte(tc.content))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseManagerListsEveryMistake(t *testing.T) {
	namespaceLabel := `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end ` +
		`with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	cases := map[string]struct {
		content string
		want    []string
	}{
		"an empty file": {
			content: "",
			want:    []string{`(the file): Invalid value: the file is empty; it needs at least apiVersion and kind`},
		},
		"something that is no YAML": {
			content: "a: [",
			want:    []string{`(the file): Invalid value: not readable as YAML: line 1: did not find expected node content`},
		},
		"a list in place of fields": {
			content: "- a\n",
			want:    []string{`(the file): Invalid value: line 1: expected a mapping of fields, found a list`},
		},
		"two documents": {
			content: header + "---\n" + header,
			want:    []string{`(the file): Invalid value: expected one YAML document, found more after the first`},
		},
		"no type": {
			content: "evidence: Kubelet\n",
			want: []string{
				`apiVersion: Required value: expected config.holdfast.dev/v1alpha1`,
				`kind: Required value: expected ManagerConfiguration`,
			},
		},
		"another type": {
			content: "apiVersion: config.holdfast.dev/v1\nkind: AgentConfiguration\n",
			want: []string{
				`apiVersion: Unsupported value: "config.holdfast.dev/v1": supported values: "config.holdfast.dev/v1alpha1"`,
				`kind: Unsupported value: "AgentConfiguration": supported values: "ManagerConfiguration"`,
			},
		},
		"a type that is no text": {
			content: "apiVersion: 1\nkind: ManagerConfiguration\n",
			want:    []string{`apiVersion: Invalid value: line 1: expected a string, found "1"`},
		},
		"unknown fields, also by case": {
			content: header + "evidance: Kubelet\nwhereabouts:\n  Namespaces: [a]\n",
			want: []string{
				`evidance: Invalid value: line 3: unknown field; known here: apiVersion, audit, controller, delays, evidence, handshakes, kind, mode, nodeResources, orphans, protection, server, unsafeReleases, whereabouts`,
				`whereabouts.Namespaces: Invalid value: line 5: unknown field; known here: enabled, namespaces`,
			},
		},
		"keys that are there twice": {
			content: header + "evidence: Kubelet\nevidence: Kubelet\ndelays:\n  releaseDelay: 1s\n  nodeGoneDelay: 1s\n  releaseDelay: 2s\n",
			want: []string{
				`evidence: Duplicate value: "line 4, first on line 3"`,
				`delays.releaseDelay: Duplicate value: "line 8, first on line 6"`,
			},
		},
		"values of another type": {
			content: header + strings.Join([]string{
				"evidence: [Kubelet]", "protection: yes", "whereabouts: {enabled: 1, namespaces: kube-system}",
				"unsafeReleases: {mode: true, daemonSets: [1, null, {a: b}]}", "delays: {releaseDelay: 180, nodeGoneDelay: 5 minutes}",
				"server: {webhookPort: '9443'}", "controller: {concurrency: 1.5, qps: many, burst: 99999999999}", "",
			}, "\n"),
			want: []string{
				`evidence: Invalid value: line 3: expected a string, found a list`,
				`protection: Invalid value: line 4: expected a mapping of fields, found "yes"`,
				`whereabouts.enabled: Invalid value: line 5: expected true or false, found "1"`,
				`whereabouts.namespaces: Invalid value: line 5: expected a list, each item a string, found "kube-system"`,
				`unsafeReleases.mode: Invalid value: line 6: expected a string, found "true"`,
				`unsafeReleases.daemonSets[0]: Invalid value: line 6: expected a string, found "1"`,
				`unsafeReleases.daemonSets[1]: Invalid value: line 6: expected a string, found "null"`,
				`unsafeReleases.daemonSets[2]: Invalid value: line 6: expected a string, found a mapping`,
				`delays.releaseDelay: Invalid value: line 7: expected a duration such as "30s" or "5m", found "180"`,
				`delays.nodeGoneDelay: Invalid value: "5 minutes": line 7: time: unknown unit " minutes" in duration "5 minutes"`,
				`server.webhookPort: Invalid value: line 8: expected a whole number, found "9443"`,
				`controller.concurrency: Invalid value: line 9: expected a whole number, found "1.5"`,
				`controller.qps: Invalid value: line 9: expected a number, found "many"`,
				`controller.burst: Invalid value: line 9: expected a whole number, found "99999999999"`,
			},
		},
		"handshakes out of range": {
			content: header + "handshakes: {responseWithin: 10ms}\n",
			want:    []string{`handshakes.responseWithin: Invalid value: "10ms": must be 1s or more`},
		},
		"values that are none of the choices": {
			content: header + "evidence: Runtime\nunsafeReleases: {mode: Refuse}\n",
			want: []string{
				`evidence: Unsupported value: "Runtime": supported values: "Kubelet", "Agent"`,
				`unsafeReleases.mode: Unsupported value: "Refuse": supported values: "Off", "Warn", "Deny"`,
			},
		},
		"no backend": {
			content: header + "whereabouts: {enabled: false}\n",
			want: []string{`whereabouts.enabled: Invalid value: false: whereabouts is the only backend; without one the manager cannot see ` +
				`which addresses a pod holds and would have nothing to guard`},
		},
		"no namespace of the backend": {
			content: header + "whereabouts: {namespaces: []}\n",
			want:    []string{`whereabouts.namespaces: Required value: name at least one namespace that holds IPPools, or leave the list out for kube-system`},
		},
		"names that no object can have": {
			content: header + "protection: {excludedNamespaces: [A], multusNamespace: a.b}\nwhereabouts: {namespaces: ['']}\n" +
				"unsafeReleases: {daemonSets: [whereabouts], cniUsers: ['', ' x', 'system:node:*']}\n",
			want: []string{
				`protection.excludedNamespaces[0]: Invalid value: "A": ` + namespaceLabel,
				`protection.multusNamespace: Invalid value: "a.b": must not contain dots`,
				`whereabouts.namespaces[0]: Invalid value: "": ` + namespaceLabel,
				`unsafeReleases.daemonSets[0]: Invalid value: "whereabouts": must have the form "namespace/name"`,
				`unsafeReleases.cniUsers[0]: Invalid value: "": must be a user name as the API server knows it, with no space around it`,
				`unsafeReleases.cniUsers[1]: Invalid value: " x": must be a user name as the API server knows it, with no space around it`,
				`unsafeReleases.cniUsers[2]: Invalid value: "system:node:*": must be one user name; a pattern matches no user`,
			},
		},
		"names that are there twice": {
			content: header + "protection: {excludedNamespaces: [a, b, a]}\nunsafeReleases: {daemonSets: [a/b, a/b]}\n",
			want: []string{
				`protection.excludedNamespaces[2]: Duplicate value: "a"`,
				`unsafeReleases.daemonSets[1]: Duplicate value: "a/b"`,
			},
		},
		"a refusal that would hit CNI DEL": {
			content: header + "unsafeReleases: {mode: Deny, daemonSets: []}\n",
			want:    []string{`unsafeReleases.daemonSets: Required value: mode Deny with neither daemonSets nor cniUsers refuses CNI DEL itself, on every node`},
		},
		"times out of bounds": {
			content: header + "delays: {releaseDelay: -1s, gracePeriodSlack: -1s, nodeGoneDelay: -1s, sandboxCreationMax: 0s}\ncontroller: {sweepInterval: 1ms}\n",
			want: []string{
				`delays.releaseDelay: Invalid value: "-1s": must be 0s or more`,
				`delays.gracePeriodSlack: Invalid value: "-1s": must be 0s or more`,
				`delays.nodeGoneDelay: Invalid value: "-1s": must be 0s or more`,
				`delays.sandboxCreationMax: Invalid value: "0s": must be greater than 0s: an IPAM records an address before the runtime lists the sandbox`,
				`controller.sweepInterval: Invalid value: "1ms": must be 1s or more`,
			},
		},
		"numbers out of bounds": {
			content: header + "server: {webhookPort: 0}\ncontroller: {concurrency: 0, qps: -1, burst: -1}\n",
			want: []string{
				`server.webhookPort: Invalid value: 0: must be between 1 and 65535, inclusive`,
				`controller.concurrency: Invalid value: 0: must be between 1 and 1000, inclusive`,
				`controller.qps: Invalid value: -1: must be 0 or more; 0 sets no limit in the client`,
				`controller.burst: Invalid value: -1: must be 0 or more`,
			},
		},
		"a burst over no limit": {
			content: header + "controller: {burst: 10}\n",
			want:    []string{`controller.burst: Invalid value: 10: has no effect without qps; set qps too, or leave burst out`},
		},
		"an unknown action for gone nodes": {
			content: header + "delays: {nodeGoneAction: Keep}\n",
			want:    []string{`delays.nodeGoneAction: Unsupported value: "Keep": supported values: "Release", "Hold"`},
		},
		"no orphan to query about": {
			content: header + "orphans: {maxQueries: 0}\n",
			want:    []string{"orphans.maxQueries: Invalid value: 0: must be between 1 and 1000, inclusive"},
		},
		"an unknown mode of the audit": {
			content: header + "audit: {mode: repair}\n",
			want:    []string{`audit.mode: Unsupported value: "repair": supported values: "Repair", "Report"`},
		},
		"a guard of node resources that would never rest, or never delete": {
			content: header + "nodeResources: {sweepInterval: 10ms, deletesPerSecond: 0}\n",
			want: []string{
				`nodeResources.sweepInterval: Invalid value: "10ms": must be 1s or more`,
				`nodeResources.deletesPerSecond: Invalid value: 0: must be above 0 and at most 100`,
			},
		},
		"a preset that there is not": {
			content: header + "nodeResources: {presets: [nodeinfo, ciliumnodes]}\n",
			want:    []string{`nodeResources.presets[1]: Unsupported value: "ciliumnodes": supported values: "nodeinfo", "nodenetworkconfigs"`},
		},
		"a deletion rate that is no limit": {
			content: header + "nodeResources: {deletesPerSecond: 100.5}\n",
			want:    []string{`nodeResources.deletesPerSecond: Invalid value: 100.5: must be above 0 and at most 100`},
		},
		"a webhook URL without TLS": {
			content: header + "server: {webhookURL: 'http://10.0.0.1:9443'}\n",
			want:    []string{`server.webhookURL: Invalid value: "http://10.0.0.1:9443": must have the form "https://host:port", with nothing behind it`},
		},
		"a webhook URL with a path": {
			content: header + "server: {webhookURL: 'https://10.0.0.1:9443/x'}\n",
			want:    []string{`server.webhookURL: Invalid value: "https://10.0.0.1:9443/x": must have the form "https://host:port", with nothing behind it`},
		},
		"addresses on which no process can listen": {
			content: header + "server: {webhookHost: example, metricsBindAddress: '8443', healthProbeBindAddress: 'example:http'}\n",
			want: []string{
				`server.webhookHost: Invalid value: "example": must be an IP address of this host, localhost, or empty for every address`,
				`server.metricsBindAddress: Invalid value: "8443": must have the form "host:port" or ":port", or be "0" for none`,
				`server.healthProbeBindAddress: Invalid value: "example": must be an IP address of this host, localhost, or empty for every address`,
				`server.healthProbeBindAddress: Invalid value: "example:http": the port must be a number between 0 and 65535`,
			},
		},
		"one port for two endpoints": {
			content: header + "server: {webhookPort: 8443, healthProbeBindAddress: '127.0.0.1:8443'}\n",
			want: []string{
				`server.metricsBindAddress: Invalid value: ":8443": is the port of server.webhookPort too; give each its own`,
				`server.healthProbeBindAddress: Invalid value: "127.0.0.1:8443": is the port of server.webhookPort too; give each its own`,
				`server.healthProbeBindAddress: Invalid value: "127.0.0.1:8443": is the port of server.metricsBindAddress too; give each its own`,
			},
		},
		"mistakes of reading and of validation together": {
			content: "apiVersion: config.holdfast.dev/v1alpha1\nkind: Manager\nextra: 1\ndelays: {releaseDelay: -1s, nodeGoneDelay: soon}\nevidence: Runtime\n",
			want: []string{
				`extra: Invalid value: line 3: unknown field; known here: apiVersion, audit, controller, delays, evidence, handshakes, kind, mode, nodeResources, orphans, protection, server, unsafeReleases, whereabouts`,
				`delays.nodeGoneDelay: Invalid value: "soon": line 4: time: invalid duration "soon"`,
				`kind: Unsupported value: "Manager": supported values: "ManagerConfiguration"`,
				`evidence: Unsupported value: "Runtime": supported values: "Kubelet", "Agent"`,
				`delays.releaseDelay: Invalid value: "-1s": must be 0s or more`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseManager("manager.yaml", []byte(tc.content))
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("expected an InvalidError, got %v", err)
			}
			var got []string
			for _, mistake := range invalid.Mistakes {
				got = append(got, mistake.Error())
				if !strings.Contains(err.Error(), "\n  - "+mistake.Error()) {
					t.Errorf("the message does not list %q:\n%s", mistake, err)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLoadManager(t *testing.T) {
	t.Run("no file gives the defaults", func(t *testing.T) {
		got, err := LoadManager("")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(defaults(), got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("a file that is not there is an error that names it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "absent.yaml")
		if _, err := LoadManager(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a wrong file is named with the number of its mistakes", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "manager.yaml")
		if err := os.WriteFile(path, []byte(header+"a: 1\nb: 2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadManager(path)
		if want := path + " has 2 mistakes; correct them and start again:\n"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want the prefix %q, got %v", want, err)
		}
	})
	t.Run("the effective configuration is a valid file", func(t *testing.T) {
		content, err := json.Marshal(defaults())
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseManager("effective", content)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(defaults(), got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestCompleteLeavesItsArgumentAlone(t *testing.T) {
	given := &configv1alpha1.ManagerConfiguration{}
	got, err := Complete(given)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&configv1alpha1.ManagerConfiguration{}, given); diff != "" {
		t.Errorf("the argument changed (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(defaults(), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	given.Evidence = "Guess"
	if _, err := Complete(given); err == nil || !strings.Contains(err.Error(), "evidence: Unsupported value") {
		t.Errorf("got %v", err)
	}
}
