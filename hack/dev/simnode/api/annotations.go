// SPDX-License-Identifier: Apache-2.0

package api

// Annotations of a pod that say how its containers and its networks behave.
// Each value is a Go duration such as "2s"; what cannot be parsed counts as
// absent.
const (
	// RunAnnotation is how long the containers run before they end with exit code
	// 0. It has no effect on a pod with restartPolicy Always.
	RunAnnotation = "simnode.holdfast.dev/run"
	// AddDelayAnnotation is how long CNI ADD runs between the last address and
	// the network-status annotation, as when one more delegate of Multus is slow.
	AddDelayAnnotation = "simnode.holdfast.dev/add-delay"
)
