// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	network = "blue"
	// clients work at the same time where a row is about saturation.
	clients = 16
)

var podRights = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "get", "list", "watch", "delete", "patch"}}

// pod is of an ordinary size, about 2 KB. No scheduler binds it.
func pod(namespace, name string, annotations map[string]string) *corev1.Pod {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 10}
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations,
			Labels: map[string]string{"app.kubernetes.io/name": "bench", "app.kubernetes.io/component": "server", "pod-template-hash": "5d4f8c7b9"}},
		Spec: corev1.PodSpec{
			SchedulerName:                 "bench",
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/server:1.2.3", Args: []string{"--listen=:8080", "--log-level=info"},
				Env:            []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
				Resources:      corev1.ResourceRequirements{Requests: resources, Limits: resources},
				ReadinessProbe: probe, LivenessProbe: probe,
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
		},
	}
}

// onNetwork is a pod that a webhook protects.
func onNetwork(namespace, name string) *corev1.Pod {
	return pod(namespace, name, map[string]string{nadv1.NetworkAttachmentAnnot: network})
}

// protected is the same pod as a webhook leaves it. It matches no webhook.
func protected(namespace, name string) *corev1.Pod {
	p := onNetwork(namespace, name)
	p.Labels[v1alpha1.GuardedLabel] = v1alpha1.GuardedLabelValue
	p.Finalizers = []string{v1alpha1.Finalizer}
	return p
}

// inParallel calls do for 0 to n-1, with so many calls at a time.
func inParallel(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range workers {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return fmt.Errorf("operation %d of %d: %w", i+1, n, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
