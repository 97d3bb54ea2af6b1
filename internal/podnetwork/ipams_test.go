// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIPAMsOf(t *testing.T) {
	whereabouts := []IPAM{{Type: "whereabouts", Plugin: "macvlan"}}
	cases := map[string]struct {
		config string
		want   []IPAM
		err    string
	}{
		"a single plugin":                         {config: `{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":"192.168.2.0/29"}}`, want: whereabouts},
		"a single plugin without a name":          {config: `{"type":"macvlan","ipam":{"type":"whereabouts"}}`, want: whereabouts},
		"an IPAM that names no range":             {config: `{"type":"macvlan","ipam":{"type":"whereabouts"}}`, want: whereabouts},
		"an unknown IPAM":                         {config: `{"type":"macvlan","ipam":{"type":"acme-ipam"}}`, want: []IPAM{{Type: "acme-ipam", Plugin: "macvlan"}}},
		"a plugin without an IPAM":                {config: `{"type":"macvlan"}`, want: []IPAM{{Plugin: "macvlan"}}},
		"an empty ipam section":                   {config: `{"type":"macvlan","ipam":{}}`, want: []IPAM{{Plugin: "macvlan"}}},
		"an ipam section of null":                 {config: `{"type":"macvlan","ipam":null}`, want: []IPAM{{Plugin: "macvlan"}}},
		"an empty ipam.type":                      {config: `{"type":"macvlan","ipam":{"type":""}}`, want: []IPAM{{Plugin: "macvlan"}}},
		"other case, as Go's decoder takes it":    {config: `{"TYPE":"macvlan","Ipam":{"Type":"whereabouts"}}`, want: whereabouts},
		"a list of one plugin":                    {config: `{"name":"wb","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts"}}]}`, want: whereabouts},
		"a list, the IPAM in a later plugin":      {config: `{"plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts"}}]}`, want: []IPAM{{Plugin: "tuning"}, {Type: "whereabouts", Plugin: "macvlan"}}},
		"a list with several IPAMs":               {config: `{"plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"macvlan","ipam":{"type":"whereabouts"}}]}`, want: []IPAM{{Type: "host-local", Plugin: "bridge"}, {Type: "whereabouts", Plugin: "macvlan"}}},
		"a list with the type of a single plugin": {config: `{"type":"macvlan","plugins":[{"type":"bridge","ipam":{"type":"whereabouts"}}]}`, want: []IPAM{{Plugin: "macvlan"}, {Type: "whereabouts", Plugin: "bridge"}}},
		"a plugin that delegates":                 {config: `{"type":"flannel","delegate":{"type":"bridge","ipam":{"type":"whereabouts"}}}`, want: []IPAM{{Plugin: "flannel"}, {Type: "whereabouts", Plugin: "bridge"}}},
		"a delegate without a type of its own":    {config: `{"type":"flannel","delegate":{"ipam":{"type":"whereabouts"}}}`, want: []IPAM{{Plugin: "flannel"}, {Type: "whereabouts"}}},
		"delegates in a list of lists":            {config: `{"type":"meta","delegates":[{"plugins":[{"type":"macvlan","ipam":{"type":"whereabouts"}}]}]}`, want: []IPAM{{Plugin: "meta"}, {Type: "whereabouts", Plugin: "macvlan"}}},
		"an IPAM that delegates":                  {config: `{"type":"macvlan","ipam":{"type":"multi","ipams":[{"type":"static"},{"v4":{"type":"whereabouts"}}]}}`, want: []IPAM{{Type: "multi", Plugin: "macvlan"}, {Type: "static", Plugin: "macvlan"}, {Type: "whereabouts", Plugin: "macvlan"}}},
		"whereabouts' own sections are no IPAMs":  {config: `{"type":"macvlan","ipam":{"type":"whereabouts","kubernetes":{"kubeconfig":"/x"},"ipRanges":[{"range":"10.0.0.0/8"}],"routes":[{"dst":"0.0.0.0/0"}]}}`, want: whereabouts},

		"an empty config":                       {err: ErrNoConfig.Error()},
		"white space":                           {config: "  \n", err: "no JSON"},
		"broken JSON":                           {config: `{"type":"macvlan",`, err: "no JSON"},
		"text":                                  {config: "macvlan", err: "no JSON"},
		"JSON with text behind it":              {config: `{"type":"macvlan"} x`, err: "no JSON"},
		"null":                                  {config: " null ", err: `"null", expected a JSON object`},
		"a list":                                {config: `[{"type":"macvlan"}]`, err: "expected a JSON object"},
		"an empty object":                       {config: `{}`, err: "neither a type nor a list of plugins"},
		"an empty list of plugins":              {config: `{"plugins":[]}`, err: "neither a type nor a list of plugins"},
		"plugins that are no list":              {config: `{"plugins":{"type":"macvlan"}}`, err: "plugins is no list"},
		"a member that is no object":            {config: `{"plugins":["macvlan"]}`, err: "member 0 of plugins"},
		"a member that is null":                 {config: `{"plugins":[{"type":"a"},null]}`, err: "member 1 of plugins"},
		"a member without a type":               {config: `{"plugins":[{"ipam":{"type":"whereabouts"}}]}`, err: "member 0 of plugins"},
		"a type that is no string":              {config: `{"type":7}`, err: "expected a string"},
		"an ipam that is no object":             {config: `{"type":"macvlan","ipam":"whereabouts"}`, err: "no JSON object"},
		"an ipam that is a list":                {config: `{"type":"macvlan","ipam":[{"type":"whereabouts"}]}`, err: "no JSON object"},
		"an ipam.type that is no string":        {config: `{"type":"macvlan","ipam":{"type":["whereabouts"]}}`, err: "expected a string"},
		"a key twice: decoders differ":          {config: `{"type":"macvlan","ipam":{"type":"whereabouts"},"ipam":{"type":"host-local"}}`, err: "ambiguous"},
		"a key twice, and a name to fill in":    {config: `{"name":"","type":"macvlan","ipam":{"type":"a","type":"whereabouts"}}`, err: "ambiguous"},
		"a key twice in another case":           {config: `{"type":"macvlan","ipam":{"type":"host-local"},"IPAM":{"type":"whereabouts"}}`, err: "ambiguous"},
		"multus reads its networks on the node": {config: `{"type":"multus","clusterNetwork":"x"}`, err: "plugin multus takes networks from a file"},
		"multus as a delegate":                  {config: `{"type":"meta","delegate":{"type":"multus-shim"}}`, err: "plugin multus-shim"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := IPAMsOf(tc.config)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("IPAMs (-want +got):\n%s", diff)
			}
			checkError(t, err, tc.err)
		})
	}
	if _, err := IPAMsOf(""); !errors.Is(err, ErrNoConfig) {
		t.Errorf("an empty config: got %v, want ErrNoConfig", err)
	}
}
