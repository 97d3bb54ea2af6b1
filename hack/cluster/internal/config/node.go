// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

// The processes of a node, in the order of their starts. Namespaces is the one
// that holds the node's namespaces.
const (
	Namespaces = "namespaces"
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
)

// Services are the processes of a node but the first.
func Services() []string { return []string{Containerd, Kubelet, KubeProxy} }

// Paths inside a node: those of any Kubernetes node.
const (
	KubeDirectory = "/opt/kube"
	// RuntimeDirectory holds containerd, its shim and ctr, where they are not the host's.
	RuntimeDirectory    = "/opt/runtime"
	CNIBinDirectory     = "/opt/cni/bin"
	CNIConfDirectory    = "/etc/cni/net.d"
	containerdConfig    = "/etc/containerd/config.toml"
	kubeletConfig       = "/etc/kubernetes/kubelet.yaml"
	kubeletKubeconfig   = "/etc/kubernetes/kubelet.kubeconfig"
	kubeProxyConfig     = "/etc/kubernetes/kube-proxy.yaml"
	kubeProxyKubeconfig = "/etc/kubernetes/kube-proxy.kubeconfig"
	clientCA            = "/etc/kubernetes/ca.crt"
	// MultusKubeconfig is where the configuration of Multus expects it.
	MultusKubeconfig = CNIConfDirectory + "/multus.d/multus.kubeconfig"
)

// PauseImage is the image of the sandboxes' process (hack/images/images.yaml).
const PauseImage = "holdfast.dev/pause:dev"

// ServiceCommand is how a node's service is started, in the node's namespaces.
func ServiceCommand(service string, n plan.Node, o Options) ([]string, error) {
	var command []string
	switch service {
	case Containerd:
		return []string{"containerd", "--config=" + containerdConfig}, nil
	case Kubelet:
		command = append(o.Command(KubeDirectory, service), "--config="+kubeletConfig, "--kubeconfig="+kubeletKubeconfig,
			"--hostname-override="+n.Name, "--node-ip="+n.Address.String(),
			"--root-dir=/var/lib/kubelet", "--cert-dir=/var/lib/kubelet/pki")
	case KubeProxy:
		command = append(o.Command(KubeDirectory, service), "--config="+kubeProxyConfig, "--hostname-override="+n.Name)
	default:
		return nil, fmt.Errorf("no service of a node is named %q: expected one of %q", service, Services())
	}
	return append(command, render(o.Arguments[service])...), nil
}

// Identity is what a node's certificates prove.
type Identity struct {
	Authority                  []byte
	Kubelet, KubeProxy, Multus []byte // kubeconfigs
}

// NodeFiles are the files of a fresh node, by their paths in it.
func NodeFiles(n plan.Node, id Identity, o Options) (map[string][]byte, error) {
	kubelet, err := yaml.Marshal(kubeletConfiguration(n, o))
	if err != nil {
		return nil, fmt.Errorf("configuration of the kubelet: %w", err)
	}
	proxy, err := yaml.Marshal(kubeProxyConfiguration())
	if err != nil {
		return nil, fmt.Errorf("configuration of kube-proxy: %w", err)
	}
	network, err := json.MarshalIndent(podNetwork(n), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("configuration of the pod network: %w", err)
	}
	return map[string][]byte{
		containerdConfig:    []byte(containerdConfiguration(o)),
		kubeletConfig:       kubelet,
		kubeletKubeconfig:   id.Kubelet,
		kubeProxyConfig:     proxy,
		kubeProxyKubeconfig: id.KubeProxy,
		clientCA:            id.Authority,
		MultusKubeconfig:    id.Multus,

		CNIConfDirectory + "/00-multus.conflist": network,
	}, nil
}

// Every image is imported, and none can be pulled; the snapshotter is overlayfs.
func containerdConfiguration(o Options) string {
	return `version = 2
root = "/var/lib/containerd"
state = "` + o.runtimeState() + `"

[grpc]
  address = "` + o.ContainerdSocket() + `"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + CNIBinDirectory + `"
    conf_dir = "` + CNIConfDirectory + `"
`
}

func kubeletConfiguration(n plan.Node, o Options) map[string]any {
	return map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + o.ContainerdSocket(),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": clientCA},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"clusterDomain": "cluster.local",
		"resolvConf":    "",
		// Nodes share the hierarchies of the machine: each has its own root there,
		// else one kubelet ends the pods of another as orphans.
		"cgroupRoot":             n.PodsCgroup(),
		"cgroupDriver":           "cgroupfs",
		"enforceNodeAllocatable": []string{},
		"failCgroupV1":           false,
		"failSwapOn":             false,
		// They share its disk too, and an image that was collected cannot come back.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
		},
	}
}

func kubeProxyConfiguration() map[string]any {
	return map[string]any{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             "nftables",
		"clusterCIDR":      plan.PodNetwork.String(),
		"clientConnection": map[string]any{"kubeconfig": kubeProxyKubeconfig},
		// The table of connections is the whole machine's: its size is left alone.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0},
	}
}

// podNetwork is Multus with the whole pod network as its delegate.
func podNetwork(n plan.Node) map[string]any {
	return map[string]any{
		"cniVersion": "0.3.1",
		"name":       "multus-cni-network",
		"plugins": []any{map[string]any{
			"type":       "multus",
			"kubeconfig": MultusKubeconfig,
			"binDir":     CNIBinDirectory,
			"cniDir":     "/var/lib/cni/multus",
			"capabilities": map[string]bool{
				"portMappings": true,
			},
			"delegates": []any{map[string]any{
				"cniVersion": "0.3.1",
				"name":       "pod-network",
				"plugins": []any{
					map[string]any{
						"type": "bridge", "bridge": "cni0",
						"isDefaultGateway": true, "hairpinMode": true,
						"ipam": map[string]any{
							"type": "host-local", "dataDir": "/run/cni/networks",
							"ranges": []any{[]any{map[string]any{"subnet": n.PodNetwork.String()}}},
						},
					},
					map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}, "snat": false},
				},
			}},
		}},
	}
}
