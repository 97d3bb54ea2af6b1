// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the configuration files of Holdfast's binaries (group config.holdfast.dev): one kind per
// binary, strict, defaulted and validated.
package v1alpha1
