// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/link"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// agentVolume is the volume of the agent's pod with its configuration, in a ConfigMap's key of this name.
const agentVolume, agentConfigKey = "config", "config.yaml"

// mounted is how the agent is started, and its configuration with the file that it reads.
type mounted struct {
	process.Options
	configuration *configv1alpha1.AgentConfiguration
	file          string
}

// listen gives the agent a port of this machine, which has those of all machines, and returns the URL of its readiness probe. It is a
// new one at every start: a port that is in use stays with its process.
func (m *mounted) listen() (readyz string, err error) {
	port, err := process.FreePort()
	if err != nil {
		return "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	m.configuration.Server = configv1alpha1.AgentServer{MetricsBindAddress: configv1alpha1.ServeNothing, HealthProbeBindAddress: address}
	content, err := yaml.Marshal(m.configuration)
	if err != nil {
		return "", err
	}
	return "http://" + address + "/readyz", os.WriteFile(m.file, content, 0o644)
}

// mountAgent gives the pod what its volumes hold on a real machine. As with a kubelet that is there before the containers start, and
// stays as it is for as long as the sandbox lives. It tries until it succeeds; false once ctx has ended.
func (m *machine) mountAgent(ctx context.Context, pod *corev1.Pod) (found mounted, ok bool) {
	for {
		found, err := m.tryMountAgent(ctx, pod)
		if err == nil {
			return found, true
		}
		m.options.Log.Warn("agent not started yet", "node", m.node.Name, "err", err)
		if !sleep(ctx, m.options.Retry) {
			return found, false
		}
	}
}

func (m *machine) tryMountAgent(ctx context.Context, pod *corev1.Pod) (mounted, error) {
	identity, err := controlplane.ServiceAccount(ctx, m.way(m.options.Config), pod.Namespace, pod.Spec.ServiceAccountName, pod)
	if err != nil {
		return mounted{}, err
	}
	configuration, err := m.agentConfiguration(ctx, pod)
	if err != nil {
		return mounted{}, err
	}
	dir := filepath.Join(m.options.StateDir, m.node.Name, "agent-"+m.node.Machine.MachineID)
	configuration.Runtime.Endpoint = m.socket
	configuration.Machine = configv1alpha1.AgentMachine{
		MachineIDFile: filepath.Join(dir, "machine-id"), BootIDFile: filepath.Join(dir, "boot-id"), SystemUUIDFile: filepath.Join(dir, "product-uuid"),
	}
	config, kubeconfig := filepath.Join(dir, agentConfigKey), filepath.Join(dir, "kubeconfig")
	if err := m.writeMachineFiles(dir, configuration); err != nil {
		return mounted{}, err
	}
	way, err := m.forward(ctx, identity)
	if err != nil {
		return mounted{}, err
	}
	return mounted{configuration: configuration, file: config, Options: process.Options{
		Name: "agent of " + m.node.Name, Path: m.options.Agent, LogFile: filepath.Join(m.options.StateDir, m.node.Name, "agent.log"),
		Args: []string{"run", "--config", config, "--kubeconfig", kubeconfig, "--node-name", m.node.Name},
	}}, writeKubeconfig(kubeconfig, identity, way)
}

// writeMachineFiles writes the files from which the agent reads its machine's IDs.
func (m *machine) writeMachineFiles(dir string, configuration *configv1alpha1.AgentConfiguration) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for path, text := range map[string]string{
		configuration.Machine.MachineIDFile:  m.node.Machine.MachineID + "\n",
		configuration.Machine.BootIDFile:     m.node.Machine.BootID + "\n",
		configuration.Machine.SystemUUIDFile: m.node.Machine.SystemUUID + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// agentConfiguration is that of the ConfigMap which the pod mounts.
func (m *machine) agentConfiguration(ctx context.Context, pod *corev1.Pod) (*configv1alpha1.AgentConfiguration, error) {
	client, err := kubernetes.NewForConfig(m.way(m.options.Config))
	if err != nil {
		return nil, err
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Name != agentVolume || volume.ConfigMap == nil {
			continue
		}
		found, err := client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("volume %s of pod %s/%s: %w", agentVolume, pod.Namespace, pod.Name, err)
		}
		configuration := &configv1alpha1.AgentConfiguration{}
		return configuration, yaml.UnmarshalStrict([]byte(found.Data[agentConfigKey]), configuration)
	}
	return nil, fmt.Errorf("pod %s/%s has no volume %s from a ConfigMap", pod.Namespace, pod.Name, agentVolume)
}

// forward is the way of a process to the API server: the machine's, cut with it.
func (m *machine) forward(ctx context.Context, identity *rest.Config) (server string, err error) {
	address, err := serverURL(identity)
	if err != nil {
		return "", err
	}
	forwarder, err := link.Forward(ctx, address.Host, m.uplink, m.power)
	if err != nil {
		return "", err
	}
	m.running.Go(func() {
		<-ctx.Done()
		forwarder.Close()
	})
	return address.Scheme + "://" + forwarder.Address(), nil
}
