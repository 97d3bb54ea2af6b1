// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// TestConfigurationIsPassedThrough changes the configurations in the chart and reads what the pods would, as the binaries do.
func TestConfigurationIsPassedThrough(t *testing.T) {
	objects := mustTemplate(t, values{
		"manager": values{"configuration": values{
			"evidence":       "Kubelet",
			"unsafeReleases": values{"mode": "Off", "daemonSets": []any{}, "cniUsers": []any{"system:node:a"}},
			"nodeResources":  values{"enabled": false, "deletesPerSecond": 0.5},
			"delays":         values{"releaseDelay": "1h30m"},
			"controller":     values{"leaderElection": false, "concurrency": 1000},
		}},
		"agent": values{"audit": values{"hostLocal": true, "awsIPAMD": true}, "configuration": values{
			"runtime": values{"endpoint": "/run/crio/crio.sock", "timeout": "2s", "stateDirectory": "/var/lib/containerd-state"},
			"stores":  values{"interval": "1m", "hostLocal": values{"reclaim": true, "networks": []any{"a", "b"}}},
		}},
	})

	want, err := config.LoadManager(repository + "/config/manager/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want.Evidence = configv1alpha1.EvidenceKubelet
	want.UnsafeReleases.Mode = configv1alpha1.ReleaseModeOff
	want.UnsafeReleases.DaemonSets, want.UnsafeReleases.CNIUsers = []string{}, []string{"system:node:a"}
	want.NodeResources.Enabled, want.NodeResources.DeletesPerSecond = new(false), new(float32(0.5))
	want.Delays.ReleaseDelay.Duration = 90 * time.Minute
	want.Controller.LeaderElection, want.Controller.Concurrency = new(false), new(int32(1000))
	got, err := config.ParseManager("the chart", []byte(configurationOf(t, objects, "Deployment")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the manager (-want +got)\n%s", diff)
	}

	wantAgent, err := config.LoadAgent(repository + "/config/agent/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wantAgent.Runtime.Endpoint, wantAgent.Runtime.Timeout.Duration = "/run/crio/crio.sock", 2*time.Second
	wantAgent.Runtime.StateDirectory = "/var/lib/containerd-state"
	wantAgent.Stores.Interval.Duration = time.Minute
	wantAgent.Stores.HostLocal.DataDirs, wantAgent.Stores.HostLocal.Networks = []string{"/host/cni/networks"}, []string{"a", "b"}
	wantAgent.Stores.HostLocal.Reclaim = true
	wantAgent.Stores.AWS.Checkpoint = "/host/aws-node/ipam.json"
	gotAgent, err := config.ParseAgent("the chart", []byte(configurationOf(t, objects, "DaemonSet")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantAgent, gotAgent); diff != "" {
		t.Errorf("the agents (-want +got)\n%s", diff)
	}
}

// configurationOf is the text that the pods of a kind of workload have mounted.
func configurationOf(t *testing.T, objects []*unstructured.Unstructured, kind string) string {
	t.Helper()
	named := byName(objects)
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		volumes, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "volumes")
		if err != nil {
			t.Fatal(err)
		}
		for _, volume := range volumes {
			name, found, _ := unstructured.NestedString(volume.(map[string]any), "configMap", "name")
			configMap := named["ConfigMap "+object.GetNamespace()+"/"+name]
			if !found || configMap == nil {
				continue
			}
			text, _, err := unstructured.NestedString(configMap.Object, "data", "config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
	t.Fatalf("no %s mounts a configuration", kind)
	return ""
}

// TestChangedConfigurationRollsThePods: by another name, as with kustomize; and nothing else does.
func TestChangedConfigurationRollsThePods(t *testing.T) {
	rolled := func(given values) (manager, agent string) {
		named := byName(mustTemplate(t, given))
		deployment := named["Deployment "+own+"/holdfast-manager"].Object["spec"].(map[string]any)
		daemonSet := named["DaemonSet holdfast-agent/holdfast-agent"].Object["spec"].(map[string]any)
		return marshal(t, deployment["template"]), marshal(t, daemonSet["template"])
	}
	manager, agent := rolled(values{})
	again, agentAgain := rolled(values{"manager": values{"replicas": 5}, "prometheus": values{"enabled": true}})
	if manager != again || agent != agentAgain {
		t.Error("pods are replaced though their configuration did not change")
	}
	changed, agentSame := rolled(values{"manager": values{"configuration": values{"delays": values{"releaseDelay": "4m"}}}})
	if changed == manager || agentSame != agent {
		t.Errorf("the manager's configuration changed: new pods of the manager %t, of the agents %t", changed != manager, agentSame != agent)
	}
	managerSame, agentChanged := rolled(values{"agent": values{"configuration": values{"runtime": values{"timeout": "5s"}}}})
	if managerSame != manager || agentChanged == agent {
		t.Errorf("the agents' configuration changed: new pods of the manager %t, of the agents %t", managerSame != manager, agentChanged != agent)
	}
}

// TestHostLocalIsWritableOnlyToReclaim: the switch is in the configuration, and the mount follows it.
func TestHostLocalIsWritableOnlyToReclaim(t *testing.T) {
	for _, reclaim := range []bool{false, true} {
		text, err := template(t, own, values{"agent": values{
			"audit":         values{"hostLocal": true},
			"configuration": values{"stores": values{"hostLocal": values{"reclaim": reclaim, "networks": []any{"a"}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, mount, _ := strings.Cut(text, "mountPath: /host/cni\n"); strings.HasPrefix(strings.TrimSpace(mount), "readOnly: true") == reclaim {
			t.Errorf("reclaim %t: %.40s", reclaim, strings.TrimSpace(mount))
		}
	}
}

// TestDefaultsOfTheChartAreValid reads the configurations of an installation without any value.
func TestDefaultsOfTheChartAreValid(t *testing.T) {
	objects := mustTemplate(t, nil)
	if _, err := config.ParseManager("the chart", []byte(configurationOf(t, objects, "Deployment"))); err != nil {
		t.Error(err)
	}
	if _, err := config.ParseAgent("the chart", []byte(configurationOf(t, objects, "DaemonSet"))); err != nil {
		t.Error(err)
	}
}
