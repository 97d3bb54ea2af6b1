// SPDX-License-Identifier: Apache-2.0

package kubeversion

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MicroK8sLabel is the label that MicroK8s gives its nodes; their version does not show it.
const MicroK8sLabel = "microk8s.io/cluster"

// IsK3s reports whether a version, of an API server or of a kubelet, is that of k3s.
func IsK3s(version string) bool { return strings.Contains(version, "+k3s") }

// SharesFieldManager reports whether kubelet and pod garbage collector of a node's cluster are one program, and write under one field manager.
func SharesFieldManager(node *corev1.Node) bool {
	_, micro := node.Labels[MicroK8sLabel]
	return micro || IsK3s(node.Status.NodeInfo.KubeletVersion)
}
