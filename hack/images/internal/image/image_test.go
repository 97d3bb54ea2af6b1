// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast-dev/holdfast/hack/images/internal/image"
)

// executable is the smallest ELF file: a header, and one segment of the type.
func executable(t *testing.T, machine elf.Machine, segment elf.ProgType, content string) []byte {
	t.Helper()
	const headerSize, segmentSize = 64, 56
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: headerSize, Ehsize: headerSize, Phentsize: segmentSize, Phnum: 1,
	}
	var buffer bytes.Buffer
	for _, part := range []any{header, elf.Prog64{Type: uint32(segment)}, []byte(content)} {
		if err := binary.Write(&buffer, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return buffer.Bytes()
}

// write puts a file of the content into a folder of its own.
func write(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func build(t *testing.T, files map[string]string) v1.Image {
	t.Helper()
	built, err := image.Build(image.Spec{
		Architecture: "amd64",
		Files:        files,
		Entrypoint:   []string{"/one"},
		Labels:       map[string]string{"org.opencontainers.image.title": "A test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func digest(t *testing.T, built v1.Image) string {
	t.Helper()
	hash, err := built.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// entry is what a layer says about a file.
type entry struct {
	Kind    byte
	Mode    int64
	UID     int
	GID     int
	ModTime time.Time
	Content string
}

func contents(t *testing.T, built v1.Image) map[string]entry {
	t.Helper()
	layers, err := built.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the image has %d layers (%v): want 1", len(layers), err)
	}
	reader, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	found := map[string]entry{}
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = entry{header.Typeflag, header.Mode, header.Uid, header.Gid, header.ModTime.UTC(), string(content)}
	}
}

func TestBuildPutsNothingButTheFilesIntoOneLayer(t *testing.T) {
	one, two := executable(t, elf.EM_X86_64, elf.PT_LOAD, "1"), executable(t, elf.EM_X86_64, elf.PT_LOAD, "2")
	built := build(t, map[string]string{"/one": write(t, one), "/usr/lib/two": write(t, two)})

	epoch := time.Unix(0, 0).UTC()
	want := map[string]entry{
		"one":         {Kind: tar.TypeReg, Mode: 0o755, ModTime: epoch, Content: string(one)},
		"usr/":        {Kind: tar.TypeDir, Mode: 0o755, ModTime: epoch},
		"usr/lib/":    {Kind: tar.TypeDir, Mode: 0o755, ModTime: epoch},
		"usr/lib/two": {Kind: tar.TypeReg, Mode: 0o755, ModTime: epoch, Content: string(two)},
	}
	if diff := cmp.Diff(want, contents(t, built)); diff != "" {
		t.Errorf("contents of the layer (-want +got):\n%s", diff)
	}
}

func TestBuildConfiguresTheImage(t *testing.T) {
	built := build(t, map[string]string{"/one": write(t, executable(t, elf.EM_X86_64, elf.PT_LOAD, ""))})
	config, err := built.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		User: "65532:65532", Entrypoint: []string{"/one"}, WorkingDir: "/",
		Labels: map[string]string{"org.opencontainers.image.title": "A test"},
	}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if config.OS != "linux" || config.Architecture != "amd64" || !config.Created.Equal(time.Unix(0, 0)) {
		t.Errorf("the image is for %s/%s, of %s: want linux/amd64, of the epoch", config.OS, config.Architecture, config.Created)
	}
}

func TestTheDigestDependsOnTheFilesOnly(t *testing.T) {
	one, two := executable(t, elf.EM_X86_64, elf.PT_LOAD, "1"), executable(t, elf.EM_X86_64, elf.PT_LOAD, "2")
	first := write(t, one)
	later := write(t, one)
	if err := os.Chtimes(later, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(later, 0o700); err != nil {
		t.Fatal(err)
	}
	want := digest(t, build(t, map[string]string{"/one": first, "/two": write(t, two)}))
	if got := digest(t, build(t, map[string]string{"/two": write(t, two), "/one": later})); got != want {
		t.Errorf("the same bytes, copied, gave %s: want %s", got, want)
	}
	for what, files := range map[string]map[string]string{
		"another content": {"/one": write(t, two), "/two": write(t, two)},
		"another path":    {"/one": first, "/three": write(t, two)},
		"a file less":     {"/one": first},
	} {
		if got := digest(t, build(t, files)); got == want {
			t.Errorf("%s gave the same digest %s", what, got)
		}
	}
}

func TestBuildRefusesWhatCouldNotRun(t *testing.T) {
	tests := map[string]struct {
		architecture string
		content      []byte
		want         string
	}{
		"a binary that needs a loader": {
			"amd64", executable(t, elf.EM_X86_64, elf.PT_INTERP, ""), "build it with CGO_ENABLED=0",
		},
		"a binary for another architecture": {
			"arm64", executable(t, elf.EM_X86_64, elf.PT_LOAD, ""), "it is built for EM_X86_64: expected EM_AARCH64 (arm64)",
		},
		"a script":                 {"amd64", []byte("#!/bin/sh\n"), "expected an executable for Linux"},
		"an unknown architecture":  {"z80", executable(t, elf.EM_X86_64, elf.PT_LOAD, ""), `the architecture "z80" is unknown`},
		"a file that is not there": {"amd64", nil, "no such file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "missing")
			if test.content != nil {
				file = write(t, test.content)
			}
			_, err := image.Build(image.Spec{Architecture: test.architecture, Files: map[string]string{"/one": file}})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("got error %v: want one that names %s and says %q", err, file, test.want)
			}
		})
	}
}

func TestCombine(t *testing.T) {
	of := func(architecture string, machine elf.Machine) v1.Image {
		file := write(t, executable(t, machine, elf.PT_LOAD, architecture))
		built, err := image.Build(image.Spec{Architecture: architecture, Files: map[string]string{"/one": file}})
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	images := map[string]v1.Image{"arm64": of("arm64", elf.EM_AARCH64), "amd64": of("amd64", elf.EM_X86_64)}

	taggable, _, err := image.Combine(images)
	if err != nil {
		t.Fatal(err)
	}
	index, ok := taggable.(v1.ImageIndex)
	if !ok {
		t.Fatalf("two architectures gave a %T: want an index", taggable)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range manifest.Manifests {
		got[m.Platform.String()] = m.Digest.String()
	}
	want := map[string]string{"linux/amd64": digest(t, images["amd64"]), "linux/arm64": digest(t, images["arm64"])}
	if !maps.Equal(got, want) {
		t.Errorf("the index has %v: want %v", got, want)
	}

	alone, hash, err := image.Combine(map[string]v1.Image{"amd64": images["amd64"]})
	if err != nil || alone != images["amd64"] || hash.String() != digest(t, images["amd64"]) {
		t.Errorf("one architecture gave %v, %s, %v: want the image itself", alone, hash, err)
	}
	if _, _, err := image.Combine(nil); err == nil {
		t.Error("no architecture gave no error")
	}
}
