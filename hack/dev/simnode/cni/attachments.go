// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

const defaultInterface = "eth0"

// attachment is one interface of a pod.
type attachment struct {
	network       string // "namespace/name" or api.ClusterNetwork
	interfaceName string
	plugins       []plugin
	addresses     []string // once CNI ADD returned
}

// orNone is the addresses, or one empty string when there are none.
func (a attachment) orNone() []string {
	if len(a.addresses) == 0 {
		return []string{""}
	}
	return a.addresses
}

// plugin is one plugin of a network, with its configuration as libcni hands it
// over: name and cniVersion are those of the list.
type plugin struct {
	config          []byte
	usesWhereabouts bool
}

// attachments reads which networks a pod gets. The first is eth0's.
func (p *Plugins) attachments(ctx context.Context, pod *corev1.Pod) ([]attachment, error) {
	live, err := p.pods.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("multus: reading pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if live.UID != pod.UID {
		return nil, fmt.Errorf("multus: pod %s/%s has UID %s, expected %s", pod.Namespace, pod.Name, live.UID, pod.UID)
	}
	eth0 := attachment{network: api.ClusterNetwork, interfaceName: defaultInterface}
	elements, err := nadutils.ParsePodNetworkAnnotation(live)
	if noNetwork := (*nadv1.NoK8sNetworkError)(nil); errors.As(err, &noNetwork) {
		return []attachment{eth0}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("multus: %w", err)
	}
	list := []attachment{eth0}
	for i, element := range elements {
		a, err := p.attachment(ctx, element, fmt.Sprintf("net%d", i+1))
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

func (p *Plugins) attachment(ctx context.Context, e *nadv1.NetworkSelectionElement, interfaceName string) (attachment, error) {
	a := attachment{network: e.Namespace + "/" + e.Name, interfaceName: interfaceName}
	if e.InterfaceRequest != "" {
		a.interfaceName = e.InterfaceRequest
	}
	nad, err := p.nads.K8sCniCncfIoV1().NetworkAttachmentDefinitions(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	if err != nil {
		return a, fmt.Errorf("multus: NetworkAttachmentDefinition %s: %w", a.network, err)
	}
	if a.plugins, err = splitPlugins([]byte(nad.Spec.Config)); err != nil {
		return a, fmt.Errorf("multus: NetworkAttachmentDefinition %s: %w", a.network, err)
	}
	return a, nil
}

// splitPlugins reads both forms of a configuration: a plugin's own, and a list
// of plugins.
func splitPlugins(config []byte) ([]plugin, error) {
	var network map[string]any
	if err := json.Unmarshal(config, &network); err != nil {
		return nil, err
	}
	list, isList := network["plugins"].([]any)
	if !isList {
		return onePlugin(nil, network)
	}
	var plugins []plugin
	for _, item := range list {
		own, isObject := item.(map[string]any)
		if !isObject {
			return nil, fmt.Errorf("plugins[%d] is no object", len(plugins))
		}
		own["name"], own["cniVersion"] = network["name"], network["cniVersion"]
		var err error
		if plugins, err = onePlugin(plugins, own); err != nil {
			return nil, err
		}
	}
	return plugins, nil
}

func onePlugin(plugins []plugin, own map[string]any) ([]plugin, error) {
	if kind, _ := own["type"].(string); kind == "" {
		return nil, errors.New("a plugin's configuration has no type")
	}
	ipam, _ := own["ipam"].(map[string]any)
	config, err := json.Marshal(own)
	return append(plugins, plugin{config: config, usesWhereabouts: ipam["type"] == "whereabouts"}), err
}

// reportNetworks writes the network-status annotation as Multus does, through
// the pods/status subresource.
func (p *Plugins) reportNetworks(ctx context.Context, pod *corev1.Pod, list []attachment) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	statuses := make([]nadv1.NetworkStatus, 0, len(list))
	for i, a := range list {
		statuses = append(statuses, nadv1.NetworkStatus{
			Name: a.network, Interface: a.interfaceName, IPs: a.addresses, Default: i == 0,
		})
	}
	if err := nadutils.SetNetworkStatus(p.pods, pod.DeepCopy(), statuses); err != nil {
		return fmt.Errorf("multus: %w", err)
	}
	return nil
}
