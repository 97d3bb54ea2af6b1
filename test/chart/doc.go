// SPDX-License-Identifier: Apache-2.0

// Package chart has no code: its tests compare what the Helm chart renders with what kustomize builds, object by object, and check
// its values, their schema and what `helm uninstall` runs. They need no cluster; helm and kustomize are built once, by go tool.
package chart
