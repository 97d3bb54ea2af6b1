// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// Client-side rate limits that a test does not notice: the server's own
	// priority and fairness still applies.
	clientQPS   = 1000
	clientBurst = 2000

	// tokenSeconds outlives every development cluster: tokens are not renewed.
	tokenSeconds = 30 * 24 * 60 * 60
)

// AddUser makes a client certificate for a user of these groups. The user has
// the rights that RBAC gives to the name and the groups, none by itself. A
// kubelet's identity is "system:node:NAME" in the group "system:nodes". The
// kubeconfig is the same identity as bytes of a file.
func (c *ControlPlane) AddUser(name string, groups ...string) (_ *rest.Config, kubeconfig []byte, err error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: clientQPS, Burst: clientBurst})
	if err != nil {
		return nil, nil, fmt.Errorf("adding user %s: %w", name, err)
	}
	config := user.Config()
	kubeconfig, err = Kubeconfig(config)
	return config, kubeconfig, err
}

// ServiceAccountConfig is ServiceAccount by the administrator of this control plane.
func (c *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string, boundPod *corev1.Pod) (*rest.Config, error) {
	return ServiceAccount(ctx, c.config, namespace, name, boundPod)
}

// ServiceAccount is the identity of a ServiceAccount that exists, by a token of
// the TokenRequest API, with the server and the limits of the administrator.
//
// With boundPod the token is bound to that pod, as a pod's own token is: it ends
// with the pod, and userInfo.extra carries authentication.kubernetes.io/pod-name
// and pod-uid, and node-name and node-uid where the pod is assigned to a node.
// The API server refuses the binding unless the pod exists with this UID and its
// spec.serviceAccountName is the account (pkg/registry/core/serviceaccount/storage/token.go).
func ServiceAccount(ctx context.Context, administrator *rest.Config, namespace, name string, boundPod *corev1.Pod) (*rest.Config, error) {
	what := fmt.Sprintf("token for ServiceAccount %s/%s", namespace, name)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	if boundPod != nil {
		what += ", bound to pod " + boundPod.Name
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: boundPod.Name, UID: boundPod.UID}
	}
	client, err := kubernetes.NewForConfig(administrator)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	config := rest.AnonymousClientConfig(administrator)
	config.BearerToken = token.Status.Token
	return config, nil
}
