// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// podList is a list of running pods with these addresses; change is applied to
// the first.
func podList(t *testing.T, addresses []string, change func(pod map[string]any)) []byte {
	t.Helper()
	var items []any
	for i, address := range addresses {
		pod := map[string]any{
			"metadata": map[string]any{"name": fmt.Sprintf("web-%d", i), "annotations": map[string]string{
				"k8s.v1.cni.cncf.io/network-status": fmt.Sprintf(
					`[{"interface":"eth0","ips":["10.244.1.%d"]},{"interface":"net1","ips":[%q]}]`, i, address),
			}},
			"spec":   map[string]any{"nodeName": "node-a"},
			"status": map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"ready": true}}},
		}
		if i == 0 && change != nil {
			change(pod)
		}
		items = append(items, pod)
	}
	list, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestSmokeAddresses(t *testing.T) {
	four := []string{"192.168.77.1", "192.168.77.2", "192.168.77.3", "192.168.77.4"}
	got, err := smokeAddresses(podList(t, four, nil))
	if err != nil || len(got) != 4 || got[3].name != "web-3" || got[3].node != "node-a" || got[3].address != netip.MustParseAddr(four[3]) {
		t.Errorf("%+v, %v", got, err)
	}
	for what, test := range map[string]struct {
		addresses []string
		change    func(map[string]any)
		want      string
	}{
		"two pods with one address": {[]string{four[0], four[1], four[0], four[3]}, nil, "both have 192.168.77.1"},
		"a pod is missing":          {four[:3], nil, "3 of 4"},
		"a pod that waits":          {four, func(p map[string]any) { p["status"] = map[string]any{"phase": "Pending"} }, "Pending"},
		"a pod without second address": {four, func(p map[string]any) {
			p["metadata"].(map[string]any)["annotations"] = map[string]string{"k8s.v1.cni.cncf.io/network-status": `[{"interface":"eth0","ips":["10.0.0.1"]}]`}
		}, "no address of net1"},
		"a pod without annotations": {four, func(p map[string]any) { delete(p["metadata"].(map[string]any), "annotations") }, "network-status"},
		"a container that is not ready": {four, func(p map[string]any) {
			p["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{"ready": false}}
		}, "not ready"},
	} {
		t.Run(what, func(t *testing.T) {
			if got, err := smokeAddresses(podList(t, test.addresses, test.change)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v, error %v, want one with %q", got, err, test.want)
			}
		})
	}
}

func TestSmokeSandboxes(t *testing.T) {
	got, err := smokeSandboxes([]byte(`{"items": [
		{"spec": {"allocations": {"1": {"id": "abc", "podref": "cluster-smoke/web-0"}, "2": {"id": "def", "podref": "default/web-1"}}}},
		{"spec": {"allocations": {"1": {"id": "ghi", "podref": "cluster-smoke/web-2"}}}}]}`))
	if diff := cmp.Diff(map[string]string{"web-0": "abc", "web-2": "ghi"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestNetworkOfASandbox(t *testing.T) {
	got, err := networkOf([]byte(`{"Spec": {"linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": "/var/run/netns/cni-1"}]}}}`))
	if err != nil || got != "/run/netns/cni-1" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := networkOf([]byte(`{"Spec": {"linux": {"namespaces": [{"type": "pid"}]}}}`)); err == nil {
		t.Errorf("a sandbox in the node's network gives %q", got)
	}
}
