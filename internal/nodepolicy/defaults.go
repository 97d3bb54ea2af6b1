// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// defaultTimeoutSeconds is the CRD's default: long enough for one live read of a Node, short enough for its writer.
const defaultTimeoutSeconds = 2

// withDefaults copies a specification and fills in what the CRD defaults, for a policy that was stored before a default was.
func withDefaults(given *v1alpha1.NodeResourcePolicySpec) *v1alpha1.NodeResourcePolicySpec {
	spec := given.DeepCopy()
	if spec.Resource.Status == nil {
		spec.Resource.Status = new(true)
	}
	if len(spec.Resource.Versions) == 0 {
		spec.Resource.Versions = []string{"*"}
	}
	orDefault(&spec.NodeUID.Presence, v1alpha1.UIDRequired)
	orDefault(&spec.Action, v1alpha1.PolicyDeny)
	orDefault(&spec.MissingNode, v1alpha1.MissingNodeAllow)
	orDefault(&spec.FailurePolicy, v1alpha1.PolicyIgnore)
	orDefault(&spec.TimeoutSeconds, defaultTimeoutSeconds)
	orDefault(&spec.Stale, v1alpha1.StaleReport)
	return spec
}

func orDefault[T comparable](value *T, otherwise T) {
	var empty T
	if *value == empty {
		*value = otherwise
	}
}
