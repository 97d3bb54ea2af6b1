// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/config"
)

func TestTheDoctorAsksForWhatTheRolesGive(t *testing.T) {
	for name, tc := range map[string]struct {
		roles  []byte
		expect []string
	}{
		"the manager": {config.ManagerRoles, []string{"patch pods in \"\"", "patch pods/status in \"\"", "get leases.coordination.k8s.io in \"kube-node-lease\"",
			"create leases.coordination.k8s.io in \"mine\"", "update leases.coordination.k8s.io holdfast-manager in \"mine\"",
			"watch validatingadmissionpolicies.admissionregistration.k8s.io in \"\"", "delete validatingwebhookconfigurations.admissionregistration.k8s.io holdfast-node-resources in \"\""}},
		"an agent": {config.AgentRoles, []string{"update guardednodes.holdfast.dev/status in \"\"", "create events.events.k8s.io in \"default\""}},
	} {
		t.Run(name, func(t *testing.T) {
			needed, err := neededRights(tc.roles, "mine")
			if err != nil {
				t.Fatal(err)
			}
			var asked []string
			for i := range needed {
				asked = append(asked, needed[i].Verb+" "+resourceOf(&needed[i])+" in \""+needed[i].Namespace+"\"")
			}
			for _, right := range tc.expect {
				if !slices.Contains(asked, right) {
					t.Errorf("%q is not among %q", right, asked)
				}
			}
		})
	}
}
