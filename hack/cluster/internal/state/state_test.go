// SPDX-License-Identifier: Apache-2.0

package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadGivesWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	want := &Cluster{
		Version: Version, Phase: Up, Directory: "/x", APIServer: "https://server",
		Bridges:      Bridges{Control: "hf-ctl", Data: "hf-data"},
		ControlPlane: []Process{{Name: "etcd", PID: 7, Started: "boot/8", Log: "/x/log"}},
		Nodes: []*Node{{
			Name: "node-a", State: Running, NamespacePID: 9, ReadyAfter: time.Unix(100, 5).UTC(),
			Processes: []Process{{Name: "kubelet", PID: 10, Started: "boot/11"}},
		}},
		Arguments: map[string]map[string]string{"etcd": {"a": "b"}},
	}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left, _ := filepath.Glob(path + "?*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// The names are promised in README.md.
func TestFieldNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	c := &Cluster{Version: Version, ControlPlane: []Process{{}}, Nodes: []*Node{{}}, Images: []string{""}, ContainerdDirectory: "/x", Platform: "k3s", Arguments: map[string]map[string]string{"": nil}}
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(`version phase directory kubeconfig kubeDirectory cniDirectory containerdDirectory platform apiServer podCIDR serviceCIDR bridges
		control data controlPlane nodes name state ip namespacePID networkNamespace mountNamespace root containerdSocket controlLink
		dataLink dataInterface machineID bootID readyAfter cgroup processes pid started log arguments images`) {
		if !strings.Contains(string(content), `"`+name+`":`) {
			t.Errorf("no field %s in\n%s", name, content)
		}
	}
}

func TestReadOfWhatIsNoState(t *testing.T) {
	for what, test := range map[string]struct{ content, want string }{
		"half a file":       {`{"version": 1, `, "make cluster-down"},
		"a foreign version": {`{"version": 2}`, "expected 1"},
		"no version":        {`{}`, "expected 1"},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(path); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	t.Run("no file is no cluster", func(t *testing.T) {
		if c, err := Read(filepath.Join(t.TempDir(), "state.json")); c != nil || err != nil {
			t.Errorf("%v, %v", c, err)
		}
	})
}

func TestPutReplacesByName(t *testing.T) {
	got := Put(nil, Process{Name: "a", PID: 1})
	got = Put(got, Process{Name: "b", PID: 2})
	got = Put(got, Process{Name: "a", PID: 3})
	if diff := cmp.Diff([]Process{{Name: "a", PID: 3}, {Name: "b", PID: 2}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p, found := Find(got, "b"); !found || p.PID != 2 {
		t.Errorf("b is %+v, %t", p, found)
	}
	if p, found := Find(got, "c"); found {
		t.Errorf("c is %+v, want none", p)
	}
}

func TestNodeByName(t *testing.T) {
	c := &Cluster{Nodes: []*Node{{Name: "node-a"}, {Name: "node-b"}}}
	if n, err := c.Node("node-b"); err != nil || n != c.Nodes[1] {
		t.Errorf("node-b is %v, %v", n, err)
	}
	if _, err := c.Node("node-c"); err == nil || !strings.Contains(err.Error(), "node-a") {
		t.Errorf("error %v, want one that lists the nodes", err)
	}
}
