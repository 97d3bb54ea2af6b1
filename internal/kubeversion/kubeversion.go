// SPDX-License-Identifier: Apache-2.0

// Package kubeversion has the versions of Kubernetes that Holdfast supports.
package kubeversion

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// Oldest and Newest are the minor versions between which everything that is shipped is compiled and tested.
var (
	Oldest = version.MajorMinor(1, 31)
	Newest = version.MajorMinor(1, 37)
)

// Expressions is the version of CEL that every supported API server accepts: a server accepts in what is written anew only
// what its predecessor can read (k8s.io/apiserver/pkg/cel/environment).
var Expressions = Oldest.SubtractMinor(1)

// Check refuses a version of the API server, such as "v1.31.4+k3s1", below the oldest that is supported.
func Check(server string) error {
	v, err := version.ParseGeneric(server)
	if err != nil {
		return fmt.Errorf("the API server reports the version %q, which is none: Kubernetes %s or newer is needed", server, Oldest)
	}
	if v.LessThan(Oldest) {
		return fmt.Errorf("the API server is Kubernetes %s: %s or newer is needed (it lacks the selectable fields of custom resources); upgrade the cluster", server, Oldest)
	}
	return nil
}
