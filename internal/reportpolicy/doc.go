// SPDX-License-Identifier: Apache-2.0

// Package reportpolicy judges, purely, whether the admission policies of config/policies are in force, and since when. A report of a
// kubelet counts as evidence only while holdfast-kubelet-reports and holdfast-node-identity keep every other account from writing it.
package reportpolicy
