// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/hack/release/internal/plugin"
)

const (
	repository = "../.."
	version    = "v9.8.7-rc.1"
	// asCommand makes this test the command release, which check starts.
	asCommand = "HOLDFAST_TEST_RELEASE_COMMAND"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// realParts is what a release takes from this repository besides the programs.
var realParts = []string{
	"LICENSE", "charts/artifacthub-repo.yml", "charts/holdfast", "config", "hack/images", "hack/step", "hack/tools/helm", "hack/tools/kustomize",
}

// program stands for the real ones, which take minutes to build for all platforms. Its version is set by the same flag.
const program = `package main

import "os"

var version = "unknown"

func main() { os.Stdout.WriteString("holdfast " + version + " (test)\n") }
`

const makefile = "STEP := $(CURDIR)/hack/step\nVERSION ?= unknown\ninclude hack/images/images.mk\n"

// project is a git repository with everything real but the programs.
func project(t *testing.T) string {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull, "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+0100",
		"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.com",
	} {
		t.Setenv(name, value)
	}
	root := t.TempDir()
	for _, name := range realParts {
		copyTree(t, filepath.Join(repository, name), filepath.Join(root, name))
	}
	write(t, root, "go.mod", "module example.com/project\n\ngo 1.26.0\n")
	write(t, root, "Makefile", makefile)
	write(t, root, ".gitignore", "/bin/\n")
	for _, name := range []string{"manager", "agent", plugin.Program} {
		write(t, root, "cmd/"+name+"/main.go", program)
	}
	git(t, root, "init", "--quiet")
	git(t, root, "add", "--all")
	git(t, root, "commit", "--quiet", "--message=One")
	return root
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, info.Mode()))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, root string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
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

// The programs of this release are small, and all else in it is real: it is made twice, as `make release-check` does.
func TestAReleaseIsWholeAndTheSameTwice(t *testing.T) {
	root := project(t)
	t.Setenv(asCommand, "1")
	output := filepath.Join(root, "bin/release")
	out, err := execute(t, "check", "--root", root, "--output", output, "--version", version, "--warm")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files := wanted()
	for _, want := range []string{"==> rendering the manifests: ", fmt.Sprintf("==> both releases have the same %d files with the same bytes", len(files))} {
		if !strings.Contains(out, want) {
			t.Errorf("check printed\n%s\nwant it to have %q", out, want)
		}
	}
	if diff := cmp.Diff(files, listFiles(t, output)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = output
	if out, err := sums.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != len(files)-1 {
		t.Errorf("sha256sum --check: %v\n%s", err, out)
	}
	checkChart(t, filepath.Join(output, "holdfast-9.8.7-rc.1.tgz"))
	checkConfig(t, filepath.Join(output, "holdfast-"+version+"-config.tar.gz"))
	checkPublished(t, root, output)
	if status := git(t, root, "status", "--porcelain"); status != "" {
		t.Errorf("the release changed the work tree:\n%s", status)
	}
}

// checkPublished publishes the release to a registry on this machine, and installs what is there as far as that needs no cluster.
func checkPublished(t *testing.T, root, output string) {
	t.Helper()
	helm := "go tool -modfile=hack/tools/helm/go.mod helm template holdfast $HOLDFAST_CHART --plain-http --namespace holdfast-system"
	out, err := execute(t, "dry-run", "--root", root, "--output", output, "--version", version, "--", "sh", "-c", helm)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	published, err := os.ReadFile(output + "-published.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(published))
	if len(lines) != 9 {
		t.Fatalf("published\n%s\nwant two images and a chart, each by tag and by digest, with its bill of materials", published)
	}
	rendered, err := os.ReadFile(filepath.Join(output, "holdfast-"+version+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i, program := range []string{"agent", "manager"} {
		_, digest, _ := strings.Cut(lines[3*i+1], "@")
		image := "image: ghcr.io/holdfast-dev/holdfast-" + program + ":" + version + "@" + digest
		if !strings.Contains(out, image) || !strings.Contains(string(rendered), image) {
			t.Errorf("the published chart, or the manifests, do not have %s", image)
		}
	}
}

func wanted() []string {
	names := []string{
		"SHA256SUMS", "artifacthub-repo.yml", "holdfast-9.8.7-rc.1.tgz", "holdfast-agent-" + version + ".oci.tar",
		"holdfast-crds-" + version + ".yaml", "holdfast-manager-" + version + ".oci.tar", "holdfast-" + version + "-config.tar.gz",
		"holdfast-" + version + ".cdx.json", "holdfast-" + version + ".yaml", "holdfast-krew-" + version + ".yaml",
		"holdfast-manager-" + version + ".cdx.json", "holdfast-agent-" + version + ".cdx.json",
	}
	for _, platform := range plugin.Platforms {
		names = append(names, platform.Archive(version))
	}
	slices.Sort(names)
	return names
}

func listFiles(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// unpacked gives the text of each file of a compressed tar archive.
func unpacked(t *testing.T, file string) map[string]string {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	compressed, err := gzip.NewReader(opened)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := "2026-01-02 02:04:05"; header.ModTime.UTC().Format("2006-01-02 15:04:05") != want {
			t.Errorf("%s is of %s: want the time of the commit, %s", header.Name, header.ModTime.UTC(), want)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(text)
	}
}

func checkChart(t *testing.T, file string) {
	t.Helper()
	var chart struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(unpacked(t, file)["holdfast/Chart.yaml"]), &chart); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(chart), "{holdfast 9.8.7-rc.1 "+version+"}"; got != want {
		t.Errorf("the chart says that it is %s: want %s", got, want)
	}
}

// checkConfig wants every file of config/, with the version's images in place of the repository's.
func checkConfig(t *testing.T, file string) {
	t.Helper()
	found := unpacked(t, file)
	for _, name := range listFiles(t, filepath.Join(repository, "config")) {
		text, ok := found["holdfast-"+version+"/config/"+name]
		if !ok {
			t.Errorf("the kustomizations have no %s", name)
		}
		if strings.Contains(text, "newTag:") && !strings.Contains(text, "newTag: "+version+"\n    digest: sha256:") {
			t.Errorf("%s gives an image another tag than %s, or no digest:\n%s", name, version, text)
		}
	}
	if _, ok := found["holdfast-"+version+"/LICENSE"]; !ok {
		t.Error("the kustomizations have no LICENSE")
	}
}
