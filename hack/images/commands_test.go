// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const testCatalog = `
images:
  - {name: manager, group: release, title: The manager, files: [{path: /manager, from: built/$ARCH/manager}], entrypoint: [/manager]}
  - {name: pause, group: cluster, title: The pause, files: [{path: /pause, from: built/$ARCH/pause}], entrypoint: [/pause]}
`

// repository makes a folder with a catalog and with binaries for two architectures.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put := func(path string, content []byte) {
		file := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	put("hack/images/images.yaml", []byte(testCatalog))
	for architecture, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for _, program := range []string{"manager", "pause"} {
			put(filepath.Join("built", architecture, program), executable(t, machine, program))
		}
	}
	return root
}

// executable is an ELF header and a comment: as little as the check for static binaries reads.
func executable(t *testing.T, machine elf.Machine, comment string) []byte {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	var buffer bytes.Buffer
	if err := binary.Write(&buffer, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	return append(buffer.Bytes(), comment...)
}

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := newCommand()
	command.SetOut(&out)
	command.SetErr(io.Discard)
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func TestSaveWritesAnArchiveThatNamesTheImage(t *testing.T) {
	root, output := repository(t), t.TempDir()
	if _, err := execute(t, "save", "--root", root, "--output", output, "--tag", "v1", "--arch", "amd64"); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "save", "--root", root, "--output", output, "--group", "cluster", "--arch", "amd64"); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	files, err := os.ReadDir(output)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		got[file.Name()] = repoTags(t, filepath.Join(output, file.Name()))
	}
	want := map[string][]string{
		"manager.tar": {"ghcr.io/holdfast-dev/manager:v1"},
		"pause.tar":   {"holdfast.dev/pause:dev"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archives and names (-want +got):\n%s", diff)
	}
	image, err := tarball.ImageFromPath(filepath.Join(output, "manager.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if version := config.Config.Labels["org.opencontainers.image.version"]; version != "v1" {
		t.Errorf("the image says that it is version %q: want v1", version)
	}
}

// repoTags are the names that an archive asks a runtime to give its image.
func repoTags(t *testing.T, file string) []string {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for archive := tar.NewReader(opened); ; {
		header, err := archive.Next()
		if err != nil {
			t.Fatalf("%s has no manifest.json: %v", file, err)
		}
		if header.Name != "manifest.json" {
			continue
		}
		var manifest tarball.Manifest
		if err := json.NewDecoder(archive).Decode(&manifest); err != nil {
			t.Fatal(err)
		}
		return manifest[0].RepoTags
	}
}

func TestSaveGivesTheSameBytesAgain(t *testing.T) {
	var archives [][]byte
	for range 2 {
		root, output := repository(t), t.TempDir()
		if _, err := execute(t, "save", "--root", root, "--output", output, "--tag", "v1", "--arch", "amd64"); err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(filepath.Join(output, "manager.tar"))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same binaries differ")
	}
}

func TestPushPutsEachArchitectureBehindOneName(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/team"
	root := repository(t)
	out, err := execute(t, "push", "--root", root, "--registry", target, "--tag", "v1", "--arch", "arm64,amd64")
	if err != nil {
		t.Fatal(err)
	}

	reference, err := name.ParseReference(target + "/manager:v1")
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Get(reference)
	if err != nil {
		t.Fatal(err)
	}
	if want := reference.String() + "@" + pulled.Digest.String(); !strings.Contains(out, want) {
		t.Errorf("push printed %q: want it to end with what to deploy, %q", out, want)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
		if err != nil {
			t.Fatalf("pulling for %s: %v", architecture, err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Architecture != architecture {
			t.Errorf("pulling for %s gave %s, %v", architecture, config.Architecture, err)
		}
		if err := validate.Image(image); err != nil {
			t.Errorf("the image for %s does not agree with itself: %v", architecture, err)
		}
	}
	if _, err := execute(t, "push", "--root", root, "--registry", target, "pause"); err == nil {
		t.Error("an image of our clusters was pushed")
	}
}

func TestListNamesEveryImage(t *testing.T) {
	out, err := execute(t, "list", "--root", repository(t), "--registry", "registry.example.com", "--tag", "v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"registry.example.com/manager:v1", "holdfast.dev/pause:dev"} {
		if !strings.Contains(out, want) {
			t.Errorf("list printed %q: want it to have %q", out, want)
		}
	}
}
