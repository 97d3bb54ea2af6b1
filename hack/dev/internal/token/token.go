// SPDX-License-Identifier: Apache-2.0

// Package token gets the identities of ServiceAccounts from the TokenRequest API,
// as kubelets do for the pods that run under them.
package token

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// validity outlives every development cluster: tokens are not renewed here.
const validity = 30 * 24 * time.Hour

// ForAccount returns the identity of a ServiceAccount, bound to nothing.
func ForAccount(ctx context.Context, administrator *rest.Config, namespace, name string) (*rest.Config, error) {
	return request(ctx, administrator, namespace, name, nil)
}

// ForPod returns what the containers of a pod read from their token volume: the
// identity of its ServiceAccount, bound to the pod, and so to its node. It ends
// with the pod.
func ForPod(ctx context.Context, administrator *rest.Config, pod *corev1.Pod) (*rest.Config, error) {
	config, err := request(ctx, administrator, pod.Namespace, pod.Spec.ServiceAccountName, &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
	})
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return config, nil
}

func request(ctx context.Context, administrator *rest.Config, namespace, name string, bound *authenticationv1.BoundObjectReference) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(administrator)
	if err != nil {
		return nil, fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(validity.Seconds())), BoundObjectRef: bound},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(administrator)
	config.BearerToken = token.Status.Token
	return config, nil
}
