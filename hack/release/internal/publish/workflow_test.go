// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
)

// step is one of the workflow that makes a release.
type step struct {
	ID, Name, Uses, Run string
	With                map[string]string
}

func workflow(t *testing.T) []step {
	t.Helper()
	text, err := os.ReadFile("../../../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Jobs map[string]struct{ Steps []step }
	}
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed.Jobs["release"].Steps
}

// published is what a release of two images and a chart has in the registry.
func published(t *testing.T) []Published {
	t.Helper()
	var all []Published
	for i, tag := range []string{"x/holdfast-agent:v0.1.0", "x/holdfast-manager:v0.1.0", "x/charts/holdfast:0.1.0"} {
		parsed, err := name.NewTag("registry.example.com/" + tag)
		if err != nil {
			t.Fatal(err)
		}
		base := parsed.RepositoryStr()[strings.LastIndex(parsed.RepositoryStr(), "/")+1:]
		digest := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat(fmt.Sprint(i), 64)}
		all = append(all, Published{Tag: parsed, Digest: digest, Bill: Bill(base, "v0.1.0")})
	}
	return all
}

// stub logs the arguments of each call, one call a line, and reads its input up, as a program may.
const stub = `#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
cat > /dev/null
case "$0 $*" in */cosign\ sign-blob*) echo bundle > bin/SHA256SUMS.sigstore.json ;; esac
`

// machine is the folder in which the steps of the workflow run, with programs that only log in place of make, cosign and gh.
type machine struct{ root, log, outputs string }

func newMachine(t *testing.T, put []Published) machine {
	t.Helper()
	m := machine{root: t.TempDir()}
	m.log, m.outputs = filepath.Join(m.root, "log"), filepath.Join(m.root, "outputs")
	files := map[string]string{
		"bin/release/holdfast-v0.1.0.yaml": "manifests", "bin/release/holdfast-krew-v0.1.0.yaml": "krew", "bin/release-notes.md": "notes", "log": "",
	}
	for _, one := range put {
		files["bin/release/"+one.Bill] = one.Bill
		files["bin/release-published.txt"] += one.Line()
	}
	for _, program := range []string{"make", "cosign", "gh"} {
		files["path/"+program] = stub
	}
	for file, text := range files {
		file = filepath.Join(m.root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil { //nolint:gosec // the programs among them are run
			t.Fatal(err)
		}
	}
	if err := checksums.Write(filepath.Join(m.root, "bin/release")); err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs what the workflow has in shell, as a runner does.
func (m machine) run(t *testing.T, steps []step) []string {
	t.Helper()
	for _, s := range steps {
		if s.Run == "" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", s.Run)
		cmd.Dir = m.root
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(m.root, "path")+":"+os.Getenv("PATH"), "LOG="+m.log,
			"GITHUB_OUTPUT="+m.outputs, "GITHUB_ACTOR=actor", "GH_TOKEN=token", "VERSION=v0.1.0-rc.1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", s.Name, err, out)
		}
	}
	log, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(log)), "\n")
}

func TestTheWorkflowSignsAndAttestsEveryDigest(t *testing.T) {
	put := published(t)
	m := newMachine(t, put)
	steps := workflow(t)
	calls := m.run(t, steps)
	var subjects []string
	for _, one := range put {
		subjects = append(subjects, one.ByDigest())
		for _, want := range []string{
			"cosign sign --yes " + one.ByDigest(),
			"cosign attest --yes --type cyclonedx --predicate bin/release/" + one.Bill + " " + one.ByDigest(),
		} {
			if !slices.Contains(calls, want) {
				t.Errorf("the workflow does not call %q, but\n%s", want, strings.Join(calls, "\n"))
			}
		}
	}
	slices.Sort(subjects)
	if diff := cmp.Diff(subjects, m.attested(t, steps)); diff != "" {
		t.Errorf("subjects of provenance in the registry (-published +attested):\n%s", diff)
	}
}

// attested are the names by digest for which the workflow attests provenance in the registry.
func (m machine) attested(t *testing.T, steps []step) []string {
	t.Helper()
	outputs, err := os.ReadFile(m.outputs)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for line := range strings.Lines(string(outputs)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		pairs = append(pairs, "${{ steps.published.outputs."+key+" }}", value)
	}
	evaluate := strings.NewReplacer(pairs...)
	var found []string
	for _, s := range steps {
		if strings.HasPrefix(s.Uses, "actions/attest-build-provenance@") && s.With["push-to-registry"] == "true" {
			found = append(found, evaluate.Replace(s.With["subject-name"]+"@"+s.With["subject-digest"]))
		}
	}
	slices.Sort(found)
	return found
}

// The page of a release has no folders: what is downloaded from it lies side by side.
func TestTheSumsMatchWhatThePageOfAReleaseHas(t *testing.T) {
	m := newMachine(t, published(t))
	calls := m.run(t, workflow(t))
	page := calls[len(calls)-1]
	const begin = "gh release create v0.1.0-rc.1 --prerelease --verify-tag --title v0.1.0-rc.1 --notes-file bin/release-notes.md "
	if !strings.HasPrefix(page, begin) {
		t.Fatalf("the last call is %q: want %q", page, begin)
	}
	downloads := t.TempDir()
	for _, file := range strings.Fields(strings.TrimPrefix(page, begin)) {
		text, err := os.ReadFile(filepath.Join(m.root, file))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(downloads, filepath.Base(file))
		if _, err := os.Stat(target); err == nil {
			t.Errorf("two files are called %s", filepath.Base(file))
		}
		if err := os.WriteFile(target, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", checksums.Name)
	check.Dir = downloads
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 5 {
		t.Errorf("sha256sum --check: %v: want five files\n%s", err, out)
	}
}
