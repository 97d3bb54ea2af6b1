// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

const folder = plan.Folder("/x/cluster")

func TestFlags(t *testing.T) {
	for what, test := range map[string]struct {
		component string
		want      []string
	}{
		"etcd asks for certificates": {Etcd, []string{
			"--client-cert-auth=true", "--listen-client-urls=https://172.31.240.1:2379", "--cert-file=/x/cluster/pki/etcd.crt",
		}},
		"the API server listens where nodes reach it": {APIServer, []string{
			"--bind-address=172.31.240.1", "--advertise-address=172.31.240.1", "--secure-port=6443",
		}},
		"the API server reaches kubelets by address, as there is no DNS": {APIServer, []string{
			"--kubelet-preferred-address-types=InternalIP",
		}},
		"the API server calls webhooks at their pods": {APIServer, []string{"--enable-aggregator-routing=true"}},
		"kubelets may write only what is theirs": {APIServer, []string{
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		}},
		"pods get the authority of the API server": {ControllerManager, []string{"--root-ca-file=/x/cluster/pki/ca.crt"}},
		"tokens are signed with the key that the API server knows": {ControllerManager, []string{
			"--service-account-private-key-file=/x/cluster/pki/service-account.key",
		}},
		"the scheduler has a name of its own": {Scheduler, []string{"--kubeconfig=/x/cluster/kubeconfigs/kube-scheduler"}},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := Flags(test.component, folder, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, flag := range test.want {
				if !slices.Contains(got, flag) {
					t.Errorf("no %s in\n%s", flag, strings.Join(got, "\n"))
				}
			}
		})
	}
}

func TestFlagsThatAreAskedForWin(t *testing.T) {
	o := Options{Arguments: map[string]map[string]string{
		ControllerManager: {"node-monitor-grace-period": "20s", "leader-elect": "true"},
		APIServer:         {"secure-port": "7443"},
		Kubelet:           {"v": "4"},
	}}
	got, err := Flags(ControllerManager, folder, o)
	if err != nil {
		t.Fatal(err)
	}
	for flag, times := range map[string]int{
		"--node-monitor-grace-period=20s": 1, "--leader-elect=true": 1, "--leader-elect=false": 0, "--secure-port=7443": 0,
	} {
		if n := len(got) - len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s == flag })); n != times {
			t.Errorf("%s is there %d times, want %d", flag, n, times)
		}
	}
	kubelet, err := ServiceCommand(Kubelet, plan.NodeAt(0), o)
	if err != nil || kubelet[len(kubelet)-1] != "--v=4" {
		t.Errorf("the kubelet runs as %q, %v; want --v=4 last", kubelet, err)
	}
}

func TestK3sIsOneBinaryWithAPlaceForContainerd(t *testing.T) {
	o := Options{Platform: K3s}
	for _, service := range []string{Kubelet, KubeProxy} {
		if got, err := ServiceCommand(service, plan.NodeAt(0), o); err != nil || got[0] != "/opt/kube/k3s" || got[1] != service {
			t.Errorf("%s runs as %q, %v", service, got, err)
		}
	}
	for component, want := range map[string]string{Etcd: "/x/etcd", ControllerManager: "/x/k3s kube-controller-manager"} {
		if got := strings.Join(o.Command("/x", component), " "); got != want {
			t.Errorf("%s runs as %q, want %q", component, got, want)
		}
	}
	files, err := NodeFiles(plan.NodeAt(0), Identity{}, o)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		containerdConfig: "state = \"/run/k3s/containerd\"\n\n[grpc]\n  address = \"/run/k3s/containerd/containerd.sock\"",
		kubeletConfig:    "containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock",
	} {
		if !strings.Contains(string(files[path]), want) {
			t.Errorf("%s: no %q in\n%s", path, want, files[path])
		}
	}
}

func TestUnknownComponents(t *testing.T) {
	if _, err := Flags("kubelet", folder, Options{}); err == nil || !strings.Contains(err.Error(), ControllerManager) {
		t.Errorf("a component that is none gives %v, want an error that lists those there are", err)
	}
	if _, err := ServiceCommand(Etcd, plan.NodeAt(0), Options{}); err == nil || !strings.Contains(err.Error(), KubeProxy) {
		t.Errorf("a service that is none gives %v, want an error that lists those there are", err)
	}
}

func TestNodeFiles(t *testing.T) {
	n := plan.NodeAt(1)
	files, err := NodeFiles(n, Identity{
		Authority: []byte("authority"), Kubelet: []byte("kubelet"), KubeProxy: []byte("proxy"), Multus: []byte("multus"),
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for path := range files {
		if !strings.HasPrefix(path, "/etc/") {
			t.Errorf("%s is not in /etc: it would not be written", path)
		}
	}
	kubelet := map[string]any{}
	if err := yaml.Unmarshal(files[kubeletConfig], &kubelet); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"/hf-cluster/node-b/pods", "cgroupfs", false, float64(100), "unix:///run/containerd/containerd.sock"}, []any{
		kubelet["cgroupRoot"], kubelet["cgroupDriver"], kubelet["failCgroupV1"], kubelet["imageGCHighThresholdPercent"],
		kubelet["containerRuntimeEndpoint"],
	}); diff != "" {
		t.Errorf("kubelet (-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{
		clientCA: "authority", kubeletKubeconfig: "kubelet", kubeProxyKubeconfig: "proxy", MultusKubeconfig: "multus",
	} {
		if got := string(files[path]); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	if !strings.Contains(string(files[containerdConfig]), `sandbox_image = "holdfast.dev/pause:dev"`) {
		t.Errorf("containerd has another pause image:\n%s", files[containerdConfig])
	}
}

func TestPodNetworkIsTheDelegateOfMultus(t *testing.T) {
	files, err := NodeFiles(plan.NodeAt(1), Identity{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var conflist struct {
		Name    string
		Plugins []struct {
			Type, Kubeconfig string
			Delegates        []struct {
				Plugins []struct {
					Type string
					IPAM struct {
						DataDir string
						Ranges  [][]struct{ Subnet string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(files[CNIConfDirectory+"/00-multus.conflist"], &conflist); err != nil {
		t.Fatal(err)
	}
	if len(conflist.Plugins) != 1 || conflist.Plugins[0].Type != "multus" || conflist.Plugins[0].Kubeconfig != MultusKubeconfig {
		t.Fatalf("the only plugin is to be multus: %+v", conflist)
	}
	bridge := conflist.Plugins[0].Delegates[0].Plugins[0]
	if bridge.Type != "bridge" || bridge.IPAM.Ranges[0][0].Subnet != "10.244.2.0/24" {
		t.Errorf("the delegate of node-b is %+v, want a bridge with 10.244.2.0/24", bridge)
	}
	if !strings.HasPrefix(bridge.IPAM.DataDir, "/run/") {
		t.Errorf("host-local keeps its addresses in %s: after a reboot those of pods that are gone would still be taken", bridge.IPAM.DataDir)
	}
}

func TestKubeconfig(t *testing.T) {
	content, err := Kubeconfig("https://server:1", []byte("ca"), []byte("certificate"), []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct {
			Name    string
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			Name string
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
		Contexts []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
	}
	if err := yaml.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	cluster, user, context := got.Clusters[0], got.Users[0], got.Contexts[0]
	if diff := cmp.Diff([]string{"https://server:1", "ca", "certificate", "key", cluster.Name, user.Name, context.Name}, []string{
		cluster.Cluster.Server, string(cluster.Cluster.CA), string(user.User.Certificate), string(user.User.Key),
		context.Context.Cluster, context.Context.User, got.CurrentContext,
	}); diff != "" {
		t.Errorf("kubeconfig (-want +got):\n%s", diff)
	}
}
