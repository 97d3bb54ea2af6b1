// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestForWhichNodeTheAgentResponds(t *testing.T) {
	cases := map[string]struct {
		change func(*Responder)
		want   types.UID
	}{
		"token, Node and machine are one":                           {func(*Responder) {}, node},
		"the token is of another node":                              {func(r *Responder) { r.Token.NodeName = "b" }, ""},
		"the token is of no node":                                   {func(r *Responder) { r.Token = Token{PodUID: "agent"} }, ""},
		"the token has no Node UID":                                 {func(r *Responder) { r.Token.NodeUID = "" }, ""},
		"neither token nor Node has a UID":                          {func(r *Responder) { r.Token.NodeUID, r.Node.UID = "", "" }, ""},
		"the Node was registered again, and the token is older":     {func(r *Responder) { r.Node.UID = "new" }, ""},
		"there is no Node":                                          {func(r *Responder) { r.Node = nil }, ""},
		"another machine reports under the Node's UID: boot ID":     {func(r *Responder) { r.Node.BootID = "another" }, ""},
		"another machine reports under the Node's UID: machine ID":  {func(r *Responder) { r.Node.MachineID = "another" }, ""},
		"another machine reports under the Node's UID: system UUID": {func(r *Responder) { r.Node.SystemUUID = "another" }, ""},
		"the kubelet has not reported a boot ID":                    {func(r *Responder) { r.Node.BootID = "" }, ""},
		"the boot ID could not be read":                             {func(r *Responder) { r.Host.BootID = "" }, ""},
		"neither side has a boot ID":                                {func(r *Responder) { r.Node.BootID, r.Host.BootID = "", "" }, ""},
		"a machine without a system UUID":                           {func(r *Responder) { r.Host.SystemUUID = "" }, node},
		"a kubelet that reports no machine ID":                      {func(r *Responder) { r.Node.MachineID = "" }, node},
		"a UUID in capitals is the same":                            {func(r *Responder) { r.Host.SystemUUID = "SYSTEM" }, node},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Responder{NodeName: "a", Token: Token{PodUID: "agent", NodeName: "a", NodeUID: node},
				Node: &v1alpha1.NodeIdentity{UID: node, MachineID: "machine", SystemUUID: "system", BootID: "boot"},
				Host: v1alpha1.NodeIdentity{MachineID: "machine", SystemUUID: "system", BootID: "boot"}}
			tc.change(&r)
			got, reason, message := r.RespondsFor()
			if got != tc.want {
				t.Errorf("responds for %q: %s", got, message)
			}
			if refused := tc.want == ""; refused != (reason == v1alpha1.ReasonNotThisMachine) || refused != (message != "") {
				t.Errorf("reason %q, message %q", reason, message)
			}
		})
	}
}
