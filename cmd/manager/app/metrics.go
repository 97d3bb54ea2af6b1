// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metricsOptions serve the metrics in plain HTTP on a loopback address, and elsewhere over HTTPS, with the webhooks'
// certificate, to whom RBAC lets get /metrics.
func metricsOptions(s configv1alpha1.Server) metricsserver.Options {
	o := metricsserver.Options{BindAddress: s.MetricsBindAddress}
	if s.MetricsBindAddress == configv1alpha1.ServeNothing || isLoopback(s.MetricsBindAddress) {
		return o
	}
	o.SecureServing = true
	o.CertDir = s.CertDir
	o.FilterProvider = filters.WithAuthenticationAndAuthorization
	return o
}

func isLoopback(bindAddress string) bool {
	host, _, err := net.SplitHostPort(bindAddress)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && address.IsLoopback())
}
