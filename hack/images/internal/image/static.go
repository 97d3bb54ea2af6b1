// SPDX-License-Identifier: Apache-2.0

package image

import (
	"debug/elf"
	"fmt"
	"maps"
	"slices"
)

// machines maps an architecture, as Go names it, to its number in ELF files.
var machines = map[string]elf.Machine{
	"amd64":   elf.EM_X86_64,
	"arm64":   elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64,
	"s390x":   elf.EM_S390,
}

// checkStatic refuses what cannot be the only file of an image.
func checkStatic(file, architecture string) error {
	want, ok := machines[architecture]
	if !ok {
		return fmt.Errorf("the architecture %q is unknown: expected one of %v", architecture, slices.Sorted(maps.Keys(machines)))
	}
	binary, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("expected an executable for Linux: %w", err)
	}
	defer binary.Close()
	if binary.Machine != want {
		return fmt.Errorf("it is built for %v: expected %v (%s)", binary.Machine, want, architecture)
	}
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("it is linked dynamically and its loader would be missing: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
