// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHermeticKeepsThePluginOffThisMachine(t *testing.T) {
	named := filepath.Join(t.TempDir(), "named.conf")
	if err := os.WriteFile(named, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ own, want string }{
		"no flat file is named": {
			`{"ipam":{"type":"whereabouts","range":"10.0.0.0/29","log_file":"/var/log/x"}}`,
			`{"ipam":{"configuration_path":"/state/flat","range":"10.0.0.0/29","type":"whereabouts"}}`,
		},
		"one that does not exist": {
			`{"ipam":{"type":"whereabouts","configuration_path":"/does/not/exist"}}`,
			`{"ipam":{"configuration_path":"/state/flat","type":"whereabouts"}}`,
		},
		"one that exists": {
			`{"ipam":{"type":"whereabouts","configuration_path":"` + named + `"}}`,
			`{"ipam":{"configuration_path":"` + named + `","type":"whereabouts"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := hermetic([]byte(tc.own), "/state/flat")
			if err != nil {
				t.Fatal(err)
			}
			if string(own) != tc.want {
				t.Errorf("got %s, want %s", own, tc.want)
			}
		})
	}
	if _, err := hermetic([]byte(`{"type":"macvlan"}`), "/state/flat"); err == nil {
		t.Error("a plugin without IPAM is no error")
	}
}
