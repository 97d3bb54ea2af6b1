// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	standinapi "github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

const (
	networkName = "blue"
	// image is never pulled: the nodes are stand-ins.
	image = "registry.k8s.io/pause:3.10"
	// graceSeconds is the pods' grace period; their containers end at once.
	graceSeconds int64 = 1
)

// setUp makes the namespace and its network.
func (s *stage) setUp(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := s.cluster.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	if !s.scenario.overlay {
		network, err := network(s.namespace, s.pool)
		if err != nil {
			return err
		}
		if err := s.cluster.Create(ctx, network); err != nil {
			return fmt.Errorf("creating the network: %w", err)
		}
	}
	return s.await(ctx, "the namespace's default ServiceAccount", podTimeout, func(ctx context.Context) (bool, string, error) {
		err := s.cluster.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, "", err
	})
}

// network is a NetworkAttachmentDefinition as whereabouts' users write it.
func network(namespace string, pool netip.Prefix) (*nadv1.NetworkAttachmentDefinition, error) {
	config, err := json.Marshal(map[string]any{
		"cniVersion": "0.3.1", "name": networkName, "type": "macvlan", "master": "eth1", "mode": "bridge",
		"ipam": map[string]any{"type": "whereabouts", "range": pool.String()},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration of the network: %w", err)
	}
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: networkName},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: string(config)},
	}, nil
}

// podSpec is one container that runs until it is told to end.
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
	for key, value := range annotations {
		all[key] = value
	}
	return all
}

// createPod makes a pod on the scenario's network, for one node.
func (s *stage) createPod(ctx context.Context, name, node string, annotations map[string]string) (*corev1.Pod, error) {
	if !s.scenario.overlay {
		annotations = onNetwork(annotations)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: annotations},
		Spec:       podSpec(node),
	}
	if err := s.cluster.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("creating pod %s: %w", name, err)
	}
	return pod, nil
}

// slowNetwork delays network-status by this time after the address is there.
func slowNetwork(delay time.Duration) map[string]string {
	return map[string]string{standinapi.AddDelayAnnotation: delay.String()}
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
	if err := s.cluster.Create(ctx, set); err != nil {
		return fmt.Errorf("creating StatefulSet %s: %w", name, err)
	}
	return nil
}
