// SPDX-License-Identifier: Apache-2.0

// Package plugin says for which platforms the kubectl plugin is released and what
// its archives are called, and writes and checks its manifest for krew, the
// plugin manager of kubectl.
package plugin

// Program is the plugin's command; kubectl finds `kubectl holdfast` by this name.
const Program = "kubectl-holdfast"

// Platform is one that the plugin is released for, as Go and krew name it.
type Platform struct{ OS, Arch string }

// Platforms are those that kubectl itself is mostly used on.
var Platforms = []Platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"},
}

// String is the platform as Go writes it.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Binary is the name of the program's file on the platform.
func (p Platform) Binary() string {
	if p.OS == "windows" {
		return Program + ".exe"
	}
	return Program
}

// Archive is the name of the file that is released for the platform.
func (p Platform) Archive(version string) string {
	name := Program + "_" + version + "_" + p.OS + "_" + p.Arch
	if p.OS == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}
