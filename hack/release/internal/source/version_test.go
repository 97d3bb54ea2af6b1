// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"
	"testing"
)

func TestCheckVersion(t *testing.T) {
	tests := map[string]struct {
		version string
		want    string // "" if it is accepted
	}{
		"a version in full":             {"v0.1.0", ""},
		"a version with a prerelease":   {"v1.2.3-rc.1", ""},
		"what git describe says":        {"v0.1.0-12-gabcdef0", ""},
		"nothing":                       {"", "no version was given"},
		"a version without a v":         {"0.1.0", "has no v"},
		"a short version":               {"v0.1", "is no semantic version"},
		"a commit":                      {"4b111ff", "is no semantic version"},
		"a word":                        {"unknown", "is no semantic version"},
		"a version with build metadata": {"v0.1.0+linux", "build metadata (+linux)"},
		"a number with a leading zero":  {"v0.01.0", "is no semantic version"},
		"two versions":                  {"v0.1.0 v0.2.0", "is no semantic version"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := CheckVersion(test.version)
			if test.want == "" {
				if err != nil {
					t.Errorf("%q was refused: %v", test.version, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "make release VERSION=v0.1.0") {
				t.Errorf("%q gave %v: want an error that says %q and what to do", test.version, err, test.want)
			}
		})
	}
}
