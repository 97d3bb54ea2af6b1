// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ReasonShadowMode is a reason of condition Enforced: the manager's mode is Shadow, so writes are judged and reported, and none is refused.
const ReasonShadowMode Reason = "ShadowMode"
