// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// whereaboutsName is that of the DaemonSet and of the ServiceAccount in
	// whereabouts' manifests.
	whereaboutsName = "whereabouts"

	tokenSeconds = 24 * 60 * 60
)

// isWhereabouts says whether the pod is whereabouts' own on its node.
func isWhereabouts(pod *corev1.Pod, namespace string) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Namespace == namespace && owner != nil && owner.Kind == "DaemonSet" && owner.Name == whereaboutsName
}

// podIdentity is what a container of the pod reads from its token volume: a
// token bound to the pod, and so to its node.
func podIdentity(ctx context.Context, administrator *rest.Config, pod *corev1.Pod) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(administrator)
	if err != nil {
		return nil, fmt.Errorf("token of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	token, err := client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: new(int64(tokenSeconds)),
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of pod %s/%s, ServiceAccount %q: %w", pod.Namespace, pod.Name, pod.Spec.ServiceAccountName, err)
	}
	config := rest.AnonymousClientConfig(administrator)
	config.BearerToken = token.Status.Token
	return config, nil
}
