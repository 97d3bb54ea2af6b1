// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

// newScheme knows every type that the manager reads or writes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for name, add := range map[string]func(*runtime.Scheme) error{
		"Kubernetes":         clientgoscheme.AddToScheme,
		"Holdfast":           v1alpha1.AddToScheme,
		"network attachment": nadv1.AddToScheme,
		"whereabouts":        whereabouts.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering the %s types: %w", name, err)
		}
	}
	return scheme, nil
}
