// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// archived makes the archive of the test's manager for both architectures, and gives its file and what was printed.
func archived(t *testing.T, more ...string) (string, string) {
	t.Helper()
	output := t.TempDir()
	args := append([]string{"archive", "--root", repository(t), "--output", output, "--tag", "v1", "--arch", "arm64,amd64"}, more...)
	out, err := execute(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(output, "manager-v1.oci.tar"), out
}

// unpack extracts an archive and refuses an entry that contains when or by whom it was made.
func unpack(t *testing.T, file string) string {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	folder := t.TempDir()
	for archive := tar.NewReader(opened); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		if err != nil {
			t.Fatal(err)
		}
		want := map[byte]int64{tar.TypeDir: 0o755, tar.TypeReg: 0o644}[header.Typeflag]
		if header.Mode != want || header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s has mode %o, owner %d:%d and time %s: want %o, 0:0 and 1970",
				header.Name, header.Mode, header.Uid, header.Gid, header.ModTime, want)
		}
		target := filepath.Join(folder, header.Name)
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(target, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(archive)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveHoldsEachArchitectureBehindOneName(t *testing.T) {
	file, out := archived(t, "--created", "1700000000", "--revision", "abc")
	outer, err := layout.ImageIndexFromPath(unpack(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Errorf("the archive does not agree with itself: %v", err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the archive holds %v (%v): want one image for all architectures", manifest, err)
	}
	named := map[string]string{
		"org.opencontainers.image.ref.name": "v1",
		"io.containerd.image.name":          "ghcr.io/holdfast-dev/manager:v1",
	}
	if diff := cmp.Diff(named, manifest.Manifests[0].Annotations); diff != "" {
		t.Errorf("names in the archive (-want +got):\n%s", diff)
	}
	digest := manifest.Manifests[0].Digest
	if want := "ghcr.io/holdfast-dev/manager:v1@" + digest.String(); !strings.Contains(out, want) {
		t.Errorf("archive printed %q: want it to have %q", out, want)
	}
	inner, err := outer.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms(t, inner)); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

// platforms are those of the index, whose images must say the same of themselves, and of when and of what they were made.
func platforms(t *testing.T, index v1.ImageIndex) []string {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if own := config.OS + "/" + config.Architecture; own != m.Platform.String() {
			t.Errorf("the image of %s says that it is for %s", m.Platform, own)
		}
		if revision := config.Config.Labels["org.opencontainers.image.revision"]; revision != "abc" {
			t.Errorf("the image of %s says that it was made of %q: want abc", m.Platform, revision)
		}
		if want := time.Unix(1700000000, 0); !config.Created.Equal(want) || !config.History[0].Created.Equal(want) {
			t.Errorf("the image of %s says that it was made at %s and %s: want %s", m.Platform, config.Created, config.History[0].Created, want)
		}
		found = append(found, m.Platform.String())
	}
	return found
}

func TestArchiveOfOneArchitectureHoldsTheImageItself(t *testing.T) {
	output := t.TempDir()
	if _, err := execute(t, "archive", "--root", repository(t), "--output", output, "--tag", "v1", "--arch", "amd64"); err != nil {
		t.Fatal(err)
	}
	outer, err := layout.ImageIndexFromPath(unpack(t, filepath.Join(output, "manager-v1.oci.tar")))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the archive holds %v (%v): want one image", manifest, err)
	}
	image, err := outer.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != "amd64" {
		t.Errorf("the image is for %s (%v): want amd64", config.Architecture, err)
	}
	if _, labeled := config.Config.Labels["org.opencontainers.image.revision"]; labeled {
		t.Error("the image names a commit that it was not given")
	}
}

func TestArchiveGivesTheSameBytesAgain(t *testing.T) {
	var archives [][]byte
	for range 2 {
		file, _ := archived(t)
		archive, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
		left, err := os.ReadDir(filepath.Dir(file))
		if err != nil || len(left) != 1 {
			t.Errorf("beside the archive there is %v (%v): want nothing", left, err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same binaries differ")
	}
}

func TestArchiveIsForReleasedImagesOnly(t *testing.T) {
	if _, err := execute(t, "archive", "--root", repository(t), "--output", t.TempDir(), "--tag", "v1", "pause"); err == nil {
		t.Error("an image of our clusters was archived as a release")
	}
}
