// SPDX-License-Identifier: Apache-2.0

// Package crds pins the modules whose CustomResourceDefinitions the suites install (internal/testing/nodecrds and others). Nothing
// links it: an import is what keeps a module in go.mod, and go.sum is what verifies the manifests.
//
// Of each module the package with the fewest imports is named, so that the module stays without dependencies: the IPAMs
// themselves need hundreds. It is a module of its own so that none of them meets the product's dependencies.
package crds

import (
	// The folder of CiliumNode's manifest.
	_ "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/client/crds/v2"
	// The folder of HostSubnet's manifest.
	_ "github.com/openshift/api/network/v1/zz_generated.crd-manifests"

	// CNINode: config/crd/bases of this module. The later versions that are served need a newer Go than the rest of the
	// repository; v1.8 adds a status.
	_ "github.com/aws/amazon-vpc-resource-controller-k8s/pkg/version"
	// NodeResourceTopology: manifests of this module.
	_ "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology"
	// BlockAffinity and IPAMBlock: libcalico-go/config/crd of this module.
	_ "github.com/projectcalico/calico/libcalico-go/lib/scope"
	// ServiceMonitor, PrometheusRule: example/prometheus-operator-crd of this module, for test/e2e/cluster.
	_ "github.com/prometheus-operator/prometheus-operator/example"
)
