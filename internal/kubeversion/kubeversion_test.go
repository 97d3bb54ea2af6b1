// SPDX-License-Identifier: Apache-2.0

package kubeversion_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

func TestCheck(t *testing.T) {
	for server, want := range map[string]string{
		"v1.30.14":      "is Kubernetes v1.30.14: Holdfast needs 1.31 or later",
		"v1.31.0":       "",
		"v1.31.0-rc.1":  "",
		"v1.31.4+k3s1":  "",
		"v1.37.1-gke.5": "",
		"v2.0.0":        "",
		"":              `version is ""`,
		"unknown":       `version is "unknown"`,
	} {
		switch err := kubeversion.Check(server); {
		case want == "" && err != nil:
			t.Errorf("%q: %v", server, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, expected %q in it", server, err, want)
		}
	}
}
