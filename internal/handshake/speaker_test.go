// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestForWhomTheAgentSpeaks(t *testing.T) {
	cases := map[string]struct {
		change func(*Speaker)
		want   types.UID
	}{
		"token, Node and machine are one":                           {func(*Speaker) {}, node},
		"the token is of another node":                              {func(s *Speaker) { s.Token.NodeName = "b" }, ""},
		"the token is of no node":                                   {func(s *Speaker) { s.Token = Token{PodUID: "agent"} }, ""},
		"the token says no Node UID":                                {func(s *Speaker) { s.Token.NodeUID = "" }, ""},
		"neither token nor Node say a UID":                          {func(s *Speaker) { s.Token.NodeUID, s.Node.UID = "", "" }, ""},
		"the Node was registered again, and the token is older":     {func(s *Speaker) { s.Node.UID = "new" }, ""},
		"there is no Node":                                          {func(s *Speaker) { s.Node = nil }, ""},
		"another machine reports under the Node's UID: boot ID":     {func(s *Speaker) { s.Node.BootID = "another" }, ""},
		"another machine reports under the Node's UID: machine ID":  {func(s *Speaker) { s.Node.MachineID = "another" }, ""},
		"another machine reports under the Node's UID: system UUID": {func(s *Speaker) { s.Node.SystemUUID = "another" }, ""},
		"the kubelet has not reported a boot ID":                    {func(s *Speaker) { s.Node.BootID = "" }, ""},
		"the boot ID could not be read":                             {func(s *Speaker) { s.Host.BootID = "" }, ""},
		"neither side knows a boot ID":                              {func(s *Speaker) { s.Node.BootID, s.Host.BootID = "", "" }, ""},
		"a machine without a system UUID":                           {func(s *Speaker) { s.Host.SystemUUID = "" }, node},
		"a kubelet that reports no machine ID":                      {func(s *Speaker) { s.Node.MachineID = "" }, node},
		"a UUID in capitals is the same":                            {func(s *Speaker) { s.Host.SystemUUID = "SYSTEM" }, node},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := Speaker{NodeName: "a", Token: Token{PodUID: "agent", NodeName: "a", NodeUID: node},
				Node: &v1alpha1.NodeIdentity{UID: node, MachineID: "machine", SystemUUID: "system", BootID: "boot"},
				Host: v1alpha1.NodeIdentity{MachineID: "machine", SystemUUID: "system", BootID: "boot"}}
			tc.change(&s)
			got, reason, message := s.Speaks()
			if got != tc.want {
				t.Errorf("speaks for %q: %s", got, message)
			}
			if refused := tc.want == ""; refused != (reason == v1alpha1.ReasonNotThisMachine) || refused != (message != "") {
				t.Errorf("reason %q, message %q", reason, message)
			}
		})
	}
}
