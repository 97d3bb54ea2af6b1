// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// errNotInstalled is what a plugin without its kubeconfig comes to.
var errNotInstalled = errors.New("whereabouts has no kubeconfig on this machine yet: its DaemonSet pod does not run here")

// call is one invocation of the plugin.
type call struct {
	config        []byte // as libcni hands it over
	sandboxID     string
	interfaceName string
	pod           *corev1.Pod
}

// arguments are what a kubelet's runtime hands over as CNI_ARGS.
func (c call) arguments() string {
	return fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%s",
		c.pod.Namespace, c.pod.Name, c.sandboxID, c.pod.UID)
}

// whereabouts is the plugin's program on one machine: the same steps as
// cmd/whereabouts.go and of IPManagement in v0.9.4 around the real allocator.
type whereabouts struct {
	options  Options
	flatFile string
	clients  atomic.Pointer[clients]
}

// clients are what the plugin has of the API server.
type clients struct {
	kubernetes kubernetes.Interface
	storage    *wbkubernetes.Client
}

// newWhereabouts writes the configuration files that the plugin finds in its
// folder: the flat file with the defaults, and the node's name for node slices.
func newWhereabouts(o Options) (*whereabouts, error) {
	w := &whereabouts{options: o, flatFile: filepath.Join(o.StateDir, "whereabouts.conf")}
	if err := os.MkdirAll(o.StateDir, 0o755); err != nil {
		return nil, fmt.Errorf("whereabouts' folder of node %s: %w", o.Node, err)
	}
	// The kubeconfig is not there: the simulated node hands over clients.
	flat := map[string]any{"datastore": "kubernetes", "kubernetes": map[string]string{"kubeconfig": filepath.Join(o.StateDir, "whereabouts.kubeconfig")}}
	content, err := json.Marshal(flat)
	if err != nil {
		return nil, fmt.Errorf("whereabouts' configuration file: %w", err)
	}
	for path, content := range map[string][]byte{
		w.flatFile: content, filepath.Join(o.StateDir, "nodename"): []byte(o.Node),
	} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, fmt.Errorf("whereabouts' configuration file: %w", err)
		}
	}
	return w, nil
}

func (w *whereabouts) install(identity *rest.Config) error {
	identity.UserAgent = "whereabouts/simnode"
	clientset, err := kubernetes.NewForConfig(identity)
	if err != nil {
		return fmt.Errorf("client of whereabouts: %w", err)
	}
	pools, err := wbclient.NewForConfig(identity)
	if err != nil {
		return fmt.Errorf("client of whereabouts: %w", err)
	}
	w.clients.Store(&clients{kubernetes: clientset, storage: wbkubernetes.NewKubernetesClient(pools, clientset)})
	return nil
}

// add returns the addresses, without their masks.
func (w *whereabouts) add(ctx context.Context, c call) ([]string, error) {
	ipam, err := w.ipam(c)
	if err != nil {
		return nil, err
	}
	newIPs, err := w.manage(ctx, types.AddTimeLimit, types.Allocate, ipam)
	if err != nil {
		return nil, fmt.Errorf("error at storage engine: %w", err)
	}
	var addresses []string
	for _, ip := range newIPs {
		addresses = append(addresses, ip.IP.String())
	}
	for _, static := range ipam.Config.Addresses {
		addresses = append(addresses, static.Address.IP.String())
	}
	return addresses, nil
}

// del returns as dropped what the plugin's cmdDel drops, and as err what it
// fails with.
func (w *whereabouts) del(ctx context.Context, c call) (dropped, err error) {
	ipam, err := w.ipam(c)
	if err != nil {
		return nil, err
	}
	_, dropped = w.manage(ctx, w.options.DelTimeout, types.Deallocate, ipam)
	if errors.Is(dropped, errDied) {
		return nil, dropped
	}
	return dropped, nil
}

// ipam is what the plugin builds from its configuration and CNI_ARGS.
func (w *whereabouts) ipam(c call) (*wbkubernetes.KubernetesIPAM, error) {
	clients := w.clients.Load()
	if clients == nil {
		return nil, errNotInstalled
	}
	own, err := hermetic(c.config, w.flatFile)
	if err != nil {
		return nil, err
	}
	conf, err := config.LoadIPAMConfiguration(own, c.arguments())
	if err != nil {
		return nil, err
	}
	conf.ConfigurationPath = w.options.StateDir // where it looks for the node's name
	ipam := &wbkubernetes.KubernetesIPAM{
		Client: *clients.storage, Config: *conf, Namespace: metav1.NamespaceSystem,
		ContainerID: c.sandboxID, IfName: c.interfaceName,
	}
	return ipam, nil
}

// hermetic points the plugin at our flat file, which else comes after those of
// the machine that this runs on, and keeps it from writing log files. A flat file
// that the configuration names, and that exists, comes first, as in the plugin.
func hermetic(own []byte, flatFile string) ([]byte, error) {
	var plugin map[string]any
	if err := json.Unmarshal(own, &plugin); err != nil {
		return nil, err
	}
	ipam, isObject := plugin["ipam"].(map[string]any)
	if !isObject {
		return nil, errors.New("the plugin's configuration has no ipam object")
	}
	if path, _ := ipam["configuration_path"].(string); !isFile(path) {
		ipam["configuration_path"] = flatFile
	}
	delete(ipam, "log_file")
	delete(ipam, "log_level")
	return json.Marshal(plugin)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
