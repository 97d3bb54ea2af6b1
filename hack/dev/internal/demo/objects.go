// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

const (
	networkName = "blue"
	// image is never pulled: the nodes are simulated.
	image = "registry.k8s.io/pause:3.10"
	// graceSeconds is the pods' grace period; their containers end at once.
	graceSeconds int64 = 1
)

// network is a whereabouts network of a run: the name and, where that is not the run's, the namespace of its
// NetworkAttachmentDefinition, and the keys of its IPAM's configuration.
type network struct {
	name      string
	ipam      map[string]any
	namespace string
}

// setUp makes the namespace and its networks.
func (s *stage) setUp(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := s.client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	networks := []network{{name: networkName, ipam: map[string]any{"range": s.pool.String()}}}
	switch {
	case s.scenario.overlay:
		networks = nil
	case s.scenario.networks != nil:
		networks = s.scenario.networks(s)
	}
	for _, n := range networks {
		if err := s.createNetwork(ctx, n); err != nil {
			return err
		}
	}
	return s.await(ctx, "the namespace's default ServiceAccount", podTimeout, func(ctx context.Context) (bool, string, error) {
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, "", err
	})
}

// createNetwork makes a NetworkAttachmentDefinition as whereabouts' users write it.
func (s *stage) createNetwork(ctx context.Context, n network) error {
	ipam := map[string]any{"type": "whereabouts"}
	maps.Copy(ipam, n.ipam)
	config, err := json.Marshal(map[string]any{
		"cniVersion": "0.3.1", "name": n.name, "type": "macvlan", "master": "eth1", "mode": "bridge", "ipam": ipam,
	})
	if err != nil {
		return fmt.Errorf("configuration of network %s: %w", n.name, err)
	}
	definition := &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(n.namespace, s.namespace), Name: n.name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: string(config)},
	}
	if err := s.client.Create(ctx, definition); err != nil {
		return fmt.Errorf("creating network %s: %w", n.name, err)
	}
	return nil
}

// part is one of the equal parts, of this length, into which the run's range falls.
func (s *stage) part(number, bits int) netip.Prefix {
	address := s.pool.Masked().Addr().As4()
	address[3] += byte(number << (32 - bits))
	return netip.PrefixFrom(netip.AddrFrom4(address), bits)
}

// podSpec is one container that runs until it is stopped.
func podSpec(nodes ...string) corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(graceSeconds),
		Containers:                    []corev1.Container{{Name: "main", Image: image}},
	}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{onNodes(nodes...)},
		},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: onNodes(nodes[0])},
		},
	}}
	return spec
}

func onNodes(nodes ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
	}}
}

func onNetwork(annotations map[string]string) map[string]string {
	all := map[string]string{nadv1.NetworkAttachmentAnnot: networkName}
	maps.Copy(all, annotations)
	return all
}

// on is the annotation of a pod that is not on networkName.
func on(network string) map[string]string {
	return map[string]string{nadv1.NetworkAttachmentAnnot: network}
}

// createPod makes a pod on the scenario's network, unless an annotation overrides it, for one node.
func (s *stage) createPod(ctx context.Context, name, node string, annotations map[string]string, change ...func(*corev1.PodSpec)) (*corev1.Pod, error) {
	if !s.scenario.overlay {
		annotations = onNetwork(annotations)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: annotations},
		Spec:       podSpec(node),
	}
	for _, c := range change {
		c(&pod.Spec)
	}
	if err := s.client.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("creating pod %s: %w", name, err)
	}
	return pod, nil
}

// slowNetwork delays network-status by this time after the address is there.
func slowNetwork(delay time.Duration) map[string]string {
	return map[string]string{simnodeapi.AddDelayAnnotation: delay.String()}
}

// createStatefulSet makes one of a single replica that may run on both nodes and prefers the first.
func (s *stage) createStatefulSet(ctx context.Context, name string) error {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name,
			Replicas:    new(int32(1)),
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: onNetwork(nil)},
				Spec:       podSpec(s.first, s.second),
			},
		},
	}
	if err := s.client.Create(ctx, set); err != nil {
		return fmt.Errorf("creating StatefulSet %s: %w", name, err)
	}
	return nil
}
