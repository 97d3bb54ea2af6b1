// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// standardLibrary is Go's own as the bill names it.
const standardLibrary = "stdlib"

// Licenses are the SPDX identifiers of what is linked into programs, by path@version.
type Licenses map[string][]string

// licenseFile is what the file of a license is called.
var licenseFile = regexp.MustCompile(`(?i)^(un)?licen[cs]e|^copying`)

// enough is how much of a file has to be the text of licenses, in percent.
const enough = 75

// ReadLicenses reads the licenses of everything that is linked into the programs, in the folders of the modules and of Go. Command prepares a go.
func ReadLicenses(ctx context.Context, command func(ctx context.Context, args ...string) *exec.Cmd, binaries []Binary) (Licenses, error) {
	folders, err := folders(ctx, command, binaries)
	if err != nil {
		return nil, err
	}
	found := Licenses{}
	for name, folder := range folders {
		if found[name], err = licensesIn(folder); err != nil {
			return nil, fmt.Errorf("finding the license of %s: %w", name, err)
		}
	}
	return found, nil
}

// folders are where the modules of the programs are, and Go.
func folders(ctx context.Context, command func(ctx context.Context, args ...string) *exec.Cmd, binaries []Binary) (map[string]string, error) {
	wanted := []string{"mod", "download", "-json"}
	found := map[string]string{}
	root, err := output(command(ctx, "env", "GOROOT"))
	if err != nil {
		return nil, err
	}
	for _, binary := range binaries {
		modules, err := binary.modules()
		if err != nil {
			return nil, err
		}
		for i := range modules {
			name := modules[i].Name + "@" + modules[i].Version
			if modules[i].Name == standardLibrary {
				found[name] = string(bytes.TrimSpace(root))
			} else if !slices.Contains(wanted, name) {
				wanted = append(wanted, name)
			}
		}
	}
	listed, err := output(command(ctx, wanted...))
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(listed)); ; {
		var module struct{ Path, Version, Dir string }
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading where modules are: %w", err)
		}
		found[module.Path+"@"+module.Version] = module.Dir
	}
}

func output(command *exec.Cmd) ([]byte, error) {
	command.Stdout, command.Stderr = nil, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return out, nil
}

// licensesIn are the SPDX identifiers of the licenses at the top of a folder, sorted.
func licensesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, entry := range entries {
		if entry.IsDir() || !licenseFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		if scanned := licensecheck.Scan(text); scanned.Percent >= enough {
			for _, match := range scanned.Match {
				found[match.ID] = true
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no file LICENSE or COPYING in it is the text of a license that is known")
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// of gives the licenses of a component as CycloneDX lists them.
func (l Licenses) of(name, version string) (*cyclonedx.Licenses, error) {
	known := l[name+"@"+version]
	if len(known) == 0 {
		return nil, fmt.Errorf("the license of %s@%s is not known", name, version)
	}
	var listed cyclonedx.Licenses
	for _, id := range known {
		listed = append(listed, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &listed, nil
}
