// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

// supportedKubernetes is the API server's version, unless that is too old: then the manager must not start.
func supportedKubernetes(restConfig *rest.Config) (*utilversion.Version, error) {
	finder, err := discovery.NewDiscoveryClientForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	info, err := finder.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the API server's version: %w", err)
	}
	if err := kubeversion.Check(info.GitVersion); err != nil {
		return nil, err
	}
	return utilversion.ParseGeneric(info.GitVersion)
}
