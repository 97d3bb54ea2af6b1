// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// Client-side rate limits that a test does not notice: the server's own
	// priority and fairness still applies.
	clientQPS   = 1000
	clientBurst = 2000

	tokenSeconds = 24 * 60 * 60
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

// ServiceAccountConfig is the identity of a ServiceAccount that exists, by a
// token of the TokenRequest API, valid for a day.
//
// With boundPod the token is bound to that pod, as a pod's own token is: it ends
// with the pod, and userInfo.extra carries authentication.kubernetes.io/pod-name
// and pod-uid, and node-name and node-uid where the pod is assigned to a node.
// The API server refuses the binding unless the pod exists with this UID and its
// spec.serviceAccountName is the account (pkg/registry/core/serviceaccount/storage/token.go).
func (c *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string, boundPod *corev1.Pod) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))},
	}
	if boundPod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: boundPod.Name, UID: boundPod.UID,
		}
	}
	token, err := c.clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return &rest.Config{
		Host:            c.config.Host,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.config.CAData},
		BearerToken:     token.Status.Token,
		QPS:             clientQPS,
		Burst:           clientBurst,
	}, nil
}
