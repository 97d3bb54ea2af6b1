// SPDX-License-Identifier: Apache-2.0

// Package config renders what the processes of a cluster are started with: flags
// and configuration files. It is pure.
package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

// The components of the control plane, in the order of their starts.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// ControlPlane are the components in the order of their starts.
func ControlPlane() []string { return []string{Etcd, APIServer, ControllerManager, Scheduler} }

// The certificates below pki/ of the cluster's folder.
const (
	CA             = "ca"
	EtcdCert       = "etcd"
	APIServerCert  = "kube-apiserver"
	KubeletClient  = "kube-apiserver-kubelet-client"
	EtcdClient     = "kube-apiserver-etcd-client"
	FrontProxy     = "front-proxy-client"
	ServiceAccount = "service-account"
	Admin          = "admin"
)

// Options are what a user may change.
type Options struct {
	// Arguments are further flags by component, which win over those here.
	Arguments map[string]map[string]string
	// Platform gives the components their names and places: K3s, or empty for Kubernetes' own.
	Platform string
}

// K3s is the platform with all components in one binary, and containerd in a place of its own.
const K3s = "k3s"

// Command is how a component of Kubernetes is started out of a folder of its binaries.
func (o Options) Command(folder, component string) []string {
	if o.Platform == K3s && component != Etcd {
		return []string{filepath.Join(folder, K3s), component}
	}
	return []string{filepath.Join(folder, component)}
}

// runtimeState is containerd's state directory in a node, with its socket.
func (o Options) runtimeState() string {
	if o.Platform == K3s {
		return "/run/k3s/containerd"
	}
	return "/run/containerd"
}

// ContainerdSocket is a path in a node, below /run.
func (o Options) ContainerdSocket() string { return o.runtimeState() + "/containerd.sock" }

// Flags of a control plane component.
func Flags(component string, f plan.Folder, o Options) ([]string, error) {
	var args map[string]string
	switch component {
	case Etcd:
		args = etcd(f)
	case APIServer:
		args = apiServer(f)
	case ControllerManager:
		args = controllerManager(f)
	case Scheduler:
		args = client(f, Scheduler, plan.SchedulerPort)
	default:
		return nil, fmt.Errorf("no component of the control plane is named %q: expected one of %q", component, ControlPlane())
	}
	maps.Copy(args, o.Arguments[component])
	return render(args), nil
}

func render(args map[string]string) []string {
	flags := make([]string, 0, len(args))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		flags = append(flags, "--"+name+"="+args[name])
	}
	return flags
}

func etcd(f plan.Folder) map[string]string {
	url := fmt.Sprintf("https://%s:%d", plan.HostAddress, plan.EtcdPort)
	peer := fmt.Sprintf("https://%s:%d", plan.HostAddress, plan.EtcdPeerPort)
	return map[string]string{
		"name":                        "default",
		"data-dir":                    f.Path("etcd"),
		"listen-client-urls":          url,
		"advertise-client-urls":       url,
		"listen-peer-urls":            peer,
		"initial-advertise-peer-urls": peer,
		"initial-cluster":             "default=" + peer,
		"cert-file":                   f.Certificate(EtcdCert),
		"key-file":                    f.Key(EtcdCert),
		"trusted-ca-file":             f.Certificate(CA),
		"client-cert-auth":            "true",
		"peer-cert-file":              f.Certificate(EtcdCert),
		"peer-key-file":               f.Key(EtcdCert),
		"peer-trusted-ca-file":        f.Certificate(CA),
		"peer-client-cert-auth":       "true",
		"log-level":                   "warn",
		// The data does not outlive this machine's.
		"unsafe-no-fsync": "true",
	}
}

func apiServer(f plan.Folder) map[string]string {
	return map[string]string{
		"advertise-address":        plan.HostAddress.String(),
		"bind-address":             plan.HostAddress.String(),
		"secure-port":              strconv.Itoa(plan.APIServerPort),
		"tls-cert-file":            f.Certificate(APIServerCert),
		"tls-private-key-file":     f.Key(APIServerCert),
		"client-ca-file":           f.Certificate(CA),
		"service-cluster-ip-range": plan.ServiceNetwork.String(),

		"etcd-servers":  fmt.Sprintf("https://%s:%d", plan.HostAddress, plan.EtcdPort),
		"etcd-cafile":   f.Certificate(CA),
		"etcd-certfile": f.Certificate(EtcdClient),
		"etcd-keyfile":  f.Key(EtcdClient),

		"authorization-mode":       "Node,RBAC",
		"enable-admission-plugins": "NodeRestriction",
		"allow-privileged":         "true",

		"service-account-issuer":           "https://kubernetes.default.svc.cluster.local",
		"service-account-key-file":         f.Certificate(ServiceAccount),
		"service-account-signing-key-file": f.Key(ServiceAccount),

		"kubelet-client-certificate":      f.Certificate(KubeletClient),
		"kubelet-client-key":              f.Key(KubeletClient),
		"kubelet-preferred-address-types": "InternalIP",

		// The host has no Service rules: webhooks are called at their pods.
		"enable-aggregator-routing":          "true",
		"requestheader-client-ca-file":       f.Certificate(CA),
		"requestheader-allowed-names":        FrontProxy,
		"requestheader-username-headers":     "X-Remote-User",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"proxy-client-cert-file":             f.Certificate(FrontProxy),
		"proxy-client-key-file":              f.Key(FrontProxy),
		// Else a stop waits a minute for watches that clients keep open.
		"shutdown-send-retry-after": "true",
	}
}

func controllerManager(f plan.Folder) map[string]string {
	args := client(f, ControllerManager, plan.ControllerManagerPort)
	maps.Copy(args, map[string]string{
		"controllers":                      "*",
		"use-service-account-credentials":  "true",
		"service-account-private-key-file": f.Key(ServiceAccount),
		"root-ca-file":                     f.Certificate(CA),
		"cluster-signing-cert-file":        f.Certificate(CA),
		"cluster-signing-key-file":         f.Key(CA),
	})
	return args
}

// client are the flags of a component that has a kubeconfig of its own.
func client(f plan.Folder, component string, port int) map[string]string {
	kubeconfig := f.Path("kubeconfigs", component)
	return map[string]string{
		"kubeconfig":                kubeconfig,
		"authentication-kubeconfig": kubeconfig,
		"authorization-kubeconfig":  kubeconfig,
		"bind-address":              plan.HostAddress.String(),
		"secure-port":               strconv.Itoa(port),
		"leader-elect":              "false",
	}
}

// Kubeconfig renders one that needs no other file.
func Kubeconfig(server string, authority, certificate, key []byte) ([]byte, error) {
	const name = "holdfast-cluster"
	content, err := yaml.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{
			"server": server, "certificate-authority-data": authority,
		}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}},
		"users": []any{map[string]any{"name": name, "user": map[string]any{
			"client-certificate-data": certificate, "client-key-data": key,
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("rendering a kubeconfig: %w", err)
	}
	return content, nil
}
