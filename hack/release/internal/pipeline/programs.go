// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/hack/release/internal/archive"
	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
	"github.com/holdfast-dev/holdfast/hack/release/internal/plugin"
	"github.com/holdfast-dev/holdfast/hack/release/internal/publish"
	"github.com/holdfast-dev/holdfast/hack/release/internal/sbom"
)

// imageArchitectures are those of the images, as Go names them.
var imageArchitectures = []string{"amd64", "arm64"}

// imagePrograms are the commands that the released images have, below cmd.
var imagePrograms = []string{"manager", "agent"}

// buildImagePrograms builds with the target that `make images` and `make push` build with.
func (r *run) buildImagePrograms(ctx context.Context) error {
	return r.command(ctx, r.buildEnv(), "make", "image-binaries",
		"VERSION="+r.Version, "ARCHES="+strings.Join(imageArchitectures, " ")).Run()
}

func (r *run) makeImages(ctx context.Context) error {
	for _, architecture := range imageArchitectures {
		for _, program := range imagePrograms {
			file := filepath.Join(r.tree, "bin/images/linux-"+architecture, program)
			binary, err := sbom.ReadBinary(program, file)
			if err != nil {
				return err
			}
			r.binaries = append(r.binaries, binary)
		}
	}
	return r.command(ctx, nil, "go", "-C", "hack/images", "run", "./", "archive", "--root", r.tree, "--output", r.stage,
		"--tag", r.Version, "--arch", strings.Join(imageArchitectures, ","),
		"--created", strconv.FormatInt(r.Source.Time.Unix(), 10), "--revision", r.Source.Revision()).Run()
}

func (r *run) pluginSteps() []step {
	var steps []step
	for _, platform := range plugin.Platforms {
		steps = append(steps, step{fmt.Sprintf("building the plugin for %s", platform), func(ctx context.Context) error {
			return r.buildPlugin(ctx, platform)
		}})
	}
	return steps
}

func (r *run) pluginBinary(p plugin.Platform) string {
	return filepath.Join(r.work, "plugin", p.OS+"-"+p.Arch, p.Binary())
}

func (r *run) buildPlugin(ctx context.Context, p plugin.Platform) error {
	program := r.pluginBinary(p)
	build := r.command(ctx, r.buildEnv("GOOS="+p.OS, "GOARCH="+p.Arch), "go", "build",
		"-ldflags", "-s -w -X main.version="+r.Version, "-o", program, "./cmd/"+plugin.Program)
	if err := build.Run(); err != nil {
		return err
	}
	binary, err := sbom.ReadBinary(plugin.Program, program)
	if err != nil {
		return err
	}
	r.binaries = append(r.binaries, binary)
	return archive.Write(filepath.Join(r.stage, p.Archive(r.Version)), []archive.File{
		{Name: p.Binary(), Path: program, Executable: true},
		{Name: plugin.License, Path: filepath.Join(r.tree, plugin.License)},
	}, r.Source.Time)
}

// checkVersions runs the programs that this machine can run. Those for other platforms are linked with the same flags.
func (r *run) checkVersions(ctx context.Context) error {
	native := plugin.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	var programs []string
	if native.OS == "linux" && slices.Contains(imageArchitectures, native.Arch) {
		for _, program := range imagePrograms {
			programs = append(programs, filepath.Join(r.tree, "bin/images/linux-"+native.Arch, program))
		}
	}
	if slices.Contains(plugin.Platforms, native) {
		programs = append(programs, r.pluginBinary(native))
	}
	for _, program := range programs {
		var said bytes.Buffer
		cmd := r.command(ctx, nil, program, "version")
		cmd.Stdout = &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s version: %w", filepath.Base(program), err)
		}
		if !slices.Contains(strings.Fields(said.String()), r.Version) {
			return fmt.Errorf("%s says %q: expected it to name %s", filepath.Base(program), strings.TrimSpace(said.String()), r.Version)
		}
		fmt.Fprint(r.Progress, said.String())
	}
	return nil
}

// describePlugin writes the manifest for krew and installs by it, as far as that needs no network.
func (r *run) describePlugin(context.Context) error {
	sums := map[string]string{}
	for _, platform := range plugin.Platforms {
		name := platform.Archive(r.Version)
		sum, err := checksums.Sum(filepath.Join(r.stage, name))
		if err != nil {
			return err
		}
		sums[name] = sum
	}
	text, err := yaml.Marshal(plugin.NewManifest(r.Version, sums))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.stage, plugin.ManifestFile(r.Version)), text, 0o644); err != nil {
		return err
	}
	manifest, err := plugin.Parse(text)
	if err != nil {
		return err
	}
	if err := manifest.Validate(plugin.ManifestName); err != nil {
		return fmt.Errorf("krew would refuse the manifest: %w", err)
	}
	return manifest.CheckArchives(r.stage)
}

// writeBills writes a bill of all programs, and one for each image, which is attested for the image's digest.
func (r *run) writeBills(ctx context.Context) error {
	command := func(ctx context.Context, args ...string) *exec.Cmd { return r.command(ctx, nil, "go", args...) }
	licensed, err := sbom.ReadLicenses(ctx, command, r.binaries)
	if err != nil {
		return err
	}
	write := func(name, packageURL string, binaries []sbom.Binary) error {
		about := sbom.Release{Name: name, PackageURL: packageURL, Version: r.Version, Revision: r.Source.Revision(), Time: r.Source.Time}
		bill, err := sbom.New(about, binaries, licensed)
		if err != nil {
			return err
		}
		text, err := sbom.Encode(bill)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(r.stage, publish.Bill(name, r.Version)), text, 0o644)
	}
	for _, image := range []string{agentImage, managerImage} {
		name := path.Base(image)
		of := slices.DeleteFunc(slices.Clone(r.binaries), func(b sbom.Binary) bool { return "holdfast-"+b.Name != name })
		if err := write(name, sbom.ImageURL(image, r.Version, r.digests[image]), of); err != nil {
			return err
		}
	}
	return write("holdfast", "", r.binaries)
}
