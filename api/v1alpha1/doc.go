// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the types of the API group holdfast.dev and the well-known names by which users and other
// programs meet Holdfast: finalizer, label, annotations, pod condition and reasons. It imports nothing of ours.
//
// +kubebuilder:object:generate=true
// +groupName=holdfast.dev
package v1alpha1
