// SPDX-License-Identifier: Apache-2.0

package whereabouts

import "testing"

func TestReserves(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		want   bool
	}{
		"whereabouts reserves by default":       {`{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`, true},
		"it is turned on":                       {`{"type":"macvlan","ipam":{"type":"whereabouts","enable_overlapping_ranges":true}}`, true},
		"it is turned off":                      {`{"type":"macvlan","ipam":{"type":"whereabouts","enable_overlapping_ranges":false}}`, false},
		"it is turned off, in a list":           {`{"plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","enable_overlapping_ranges":false}}]}`, false},
		"keys have no case":                     {`{"type":"macvlan","ipam":{"type":"whereabouts","Enable_Overlapping_Ranges":false}}`, false},
		"what is no boolean is not understood":  {`{"type":"macvlan","ipam":{"type":"whereabouts","enable_overlapping_ranges":"yes"}}`, false},
		"what cannot be read is not understood": {`{`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := New(Options{}).Reserves(tc.config); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
