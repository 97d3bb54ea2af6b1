// SPDX-License-Identifier: Apache-2.0

// Package exempt decides which pods may not, or need not, be held.
package exempt

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Pod reports whether a pod is exempt: by the rules, or by its own annotation or its namespace's, which is read live.
func Pod(ctx context.Context, live client.Reader, rules protection.Rules, pod *corev1.Pod) (bool, error) {
	var namespace metav1.PartialObjectMetadata
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := live.Get(ctx, types.NamespacedName{Name: pod.Namespace}, &namespace); err != nil {
		return false, fmt.Errorf("reading namespace %s, which may have opted out: %w", pod.Namespace, err)
	}
	facts := protection.FactsOf(&pod.ObjectMeta, pod.Spec.HostNetwork, rules)
	facts.NamespaceOptedOut = namespace.Labels[v1alpha1.OptOutLabel] == v1alpha1.GuardAnnotationOff
	_, exempt := protection.Exempt(facts)
	return exempt, nil
}
