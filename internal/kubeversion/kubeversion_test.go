// SPDX-License-Identifier: Apache-2.0

package kubeversion_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

func TestVersionsBelowTheOldestAreRefused(t *testing.T) {
	for server, refusal := range map[string]string{
		"v1.31.0":            "",
		"v1.31.14-gke.1023":  "",
		"v1.31.4+k3s1":       "",
		"v1.33.5-eks-3025e5": "",
		"v1.37.1":            "",
		"v1.38.0-alpha.1":    "",
		"v1.30.14":           "the API server is Kubernetes v1.30.14: 1.31 or newer is needed",
		"v0.0.0-master":      "1.31 or newer is needed",
		"":                   "which is none: Kubernetes 1.31 or newer is needed",
	} {
		err := kubeversion.Check(server)
		if (err != nil) != (refusal != "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%q: %v, want %q", server, err, refusal)
		}
	}
}
