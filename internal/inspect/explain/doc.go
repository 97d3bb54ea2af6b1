// SPDX-License-Identifier: Apache-2.0

// Package explain says, purely, why a pod's addresses are held: it builds from facts that were read live the observation that the
// controllers build, asks the decision table itself (internal/release.Decide), and asks it again about what could change.
//
// It sees what the API server has, past every cache. A controller may be behind that by a moment. And a controller that has watched
// since before the deletion can know two things that no later look can: that the pod was seen deleting and not terminal, so that a
// phase which the kubelet wrote within the same second is an ending after the deletion, and one that admission policies younger than the pod
// judged; and that an entry appeared after the pod was bound. Both can only let the controller go on where this package says "wait".
package explain
