// SPDX-License-Identifier: Apache-2.0

// Package source says what a release is made of: a version, and a tree of files
// as git stored it. A release never reads the work tree itself, so that nothing
// gets into it by lying around, and nothing changes while it is made.
package source

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// CheckVersion refuses what cannot name a release: anything but a semantic
// version (https://semver.org, 2.0.0) in full and with a v before it, as git tags,
// Go modules and krew write it. Build metadata is refused too, since the tag of an
// image cannot have a +.
func CheckVersion(version string) error {
	const expected = "expected vMAJOR.MINOR.PATCH or vMAJOR.MINOR.PATCH-PRERELEASE, such as v0.1.0 or v0.2.0-rc.1: make release VERSION=v0.1.0"
	switch {
	case version == "":
		return fmt.Errorf("no version was given: %s", expected)
	case semver.IsValid("v" + version):
		return fmt.Errorf("the version %q has no v: %s", version, expected)
	case semver.Build(version) != "":
		return fmt.Errorf("the version %q has build metadata (%s), which the tag of an image cannot have: %s", version, semver.Build(version), expected)
	case semver.Canonical(version) != version || !semver.IsValid(version):
		return fmt.Errorf("the version %q is no semantic version: %s", version, expected)
	}
	return nil
}

// Plain is the version without its v, as Helm charts write it.
func Plain(version string) string { return strings.TrimPrefix(version, "v") }
