// SPDX-License-Identifier: Apache-2.0

package kubeversion

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
)

// Feature is what Holdfast uses where the API server serves it, and does without elsewhere.
type Feature struct {
	Name string
	// Resource is what the API server lists where it serves the feature.
	Resource schema.GroupVersionResource
	// Since is the first minor version that serves it by default.
	Since *version.Version
}

// The features.
var (
	MutatingAdmissionPolicy = Feature{"MutatingAdmissionPolicy",
		schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}, version.MajorMinor(1, 36)}
	PodResize = Feature{"PodResize", schema.GroupVersionResource{Version: "v1", Resource: "pods/resize"}, version.MajorMinor(1, 33)}

	Features = []Feature{MutatingAdmissionPolicy, PodResize}
)

// ServedBy reports whether an API server of that version serves the feature by default.
func (f Feature) ServedBy(server *version.Version) bool { return !server.LessThan(f.Since) }
