// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestOnlyWhatRanHasARow(t *testing.T) {
	suites := tiers["suites"].table
	header, end := suites.header, suites.end
	page := "text\n\n" + header + "| 1.33.13 | `make matrix TIER=suites ONLY=1.33` | 5 | 1 | `a` |\n| 1.37.1 | `make matrix TIER=suites ONLY=1.37` | 6 | 0 | before commits were recorded |\n\n" + end + "\nmore\n"
	for name, tc := range map[string]struct {
		minor      string
		result     result
		has, hasNo []string
	}{
		"a first run adds a row, and keeps the others":     {"1.31", result{"1.31.4", "4", "2", "abc"}, []string{"| 1.31.4 | `make matrix TIER=suites ONLY=1.31` | 4 | 2 | `abc` |\n| 1.33.13 |", "| 1.37.1 |"}, nil},
		"another run replaces the row of its version":      {"1.33", result{"1.33.14", "7", "1", "abc"}, []string{"| 1.33.14 |"}, []string{"| 1.33.13 |"}},
		"a run that failed takes the row of its version":   {"1.33", result{}, []string{"| 1.37.1 |"}, []string{"| 1.33"}},
		"a run that failed where there was none is no row": {"1.31", result{}, []string{"| 1.33.13 |", "| 1.37.1 |"}, []string{"| 1.31"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := suites.withRow(page, tc.minor, tc.result)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range append(tc.has, "text\n\n"+header, end+"\nmore\n") {
				if !strings.Contains(got, text) {
					t.Errorf("%q is missing in\n%s", text, got)
				}
			}
			for _, text := range tc.hasNo {
				if strings.Contains(got, text) {
					t.Errorf("%q is in\n%s", text, got)
				}
			}
		})
	}
	if _, err := suites.withRow("a page", "1.31", result{}); err == nil || !strings.Contains(err.Error(), "no table of the matrix") {
		t.Errorf("got %v", err)
	}
}

func TestThePageHasTheTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, tier := range tiers {
		got, err := tier.table.withRow(string(page), "9.99", result{"9.99.1", "1", "0", "abc"})
		if err != nil {
			t.Error(err)
		}
		row := "| 9.99.1 | `" + tier.table.command + "9.99` | 1 | 0 | `abc` |\n"
		if _, after, found := strings.Cut(got, row); !found || !strings.HasPrefix(after, "\n"+tier.table.end) {
			t.Errorf("%s: the row %q is not the last one before %q", name, row, tier.table.end)
		}
	}
}

func TestTheTotalIsRead(t *testing.T) {
	for out, want := range map[string]result{
		"ok x: 3 passed, 0 failed in 1 s\n9 passed, 0 failed\n":      {passed: "9", leftOut: "0"},
		"9 passed, 0 failed, 12 left out\n":                          {passed: "9", leftOut: "12"},
		"1 passed, 0 failed\nlater\n9 passed, 0 failed, 2 skipped\n": {passed: "9", leftOut: "0"},
	} {
		if got, err := read(out); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", out, got, err, want)
		}
	}
	for _, out := range []string{"", "9 passed, 1 failed\n"} {
		if got, err := read(out); err == nil {
			t.Errorf("%q: %v", out, got)
		}
	}
}

var update = flag.Bool("update", false, "write the summary of the rows into docs/compatibility.md")

func TestTheSummaryIsOfTheRows(t *testing.T) {
	const file = "../../docs/compatibility.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withSummary(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("the summary is not that of the rows: make matrix writes it with a row, and go test ./hack/matrix -update without. It would be\n%s", want)
	}
	empty, err := withSummary(strings.Replace(want, "| 1.37.1 | `make matrix TIER=k3s", "| x | `", 1))
	if err != nil || !strings.Contains(empty, "under the name `k3s` | x |") {
		t.Errorf("%v: another version is not in the summary of\n%s", err, empty)
	}
	if len(order) != len(tiers) {
		t.Errorf("a run of all tiers has %d, and there are %d", len(order), len(tiers))
	}
}

// What is not of make matrix has the versions of modules, which are another's to raise.
func TestThePageHasThePinnedVersions(t *testing.T) {
	page, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range []struct{ row, modfile, module string }{
		{"Kubernetes", "hack/kube/go.mod", "k8s.io/kubernetes"},
		{"Kubernetes on real nodes", "hack/kube/go.mod", "k8s.io/kubernetes"},
		{"Kubernetes on real nodes", "hack/kube/go-1.36.mod", "k8s.io/kubernetes"},
		{"whereabouts", "hack/dev/go.mod", "github.com/k8snetworkplumbingwg/whereabouts"},
		{"cert-manager", "hack/certmanager/go.mod", "github.com/cert-manager/cert-manager"},
		{"Multus", "go.mod", "github.com/k8snetworkplumbingwg/network-attachment-definition-client"},
		{"Multus", "hack/cni/go.mod", "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"},
		{"Prometheus operator", "hack/crds/go.mod", "github.com/prometheus-operator/prometheus-operator"},
		{"Helm", "hack/tools/helm/go.mod", "helm.sh/helm/v4"}, // its minor version: a part was tried by hand, and not again for each patch
	} {
		text, err := os.ReadFile("../../" + pin.modfile)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(pin.module) + ` v(\S+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not require %s", pin.modfile, pin.module)
		}
		version := string(found[1])
		if pin.row == "Helm" {
			version = version[:strings.LastIndex(version, ".")]
		}
		row := regexp.MustCompile(`(?m)^\| ` + pin.row + ` \|.*\b` + regexp.QuoteMeta(version) + `\b`)
		if !row.Match(page) {
			t.Errorf("no row of %s has %s, which %s requires of %s", pin.row, found[1], pin.modfile, pin.module)
		}
	}
}

func TestTheCommitIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "--allow-empty", "-m", "one"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%s, %v", out, err)
		}
	}
	clean, err := head("page.md")
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(clean) {
		t.Errorf("got %q, %v", clean, err)
	}
	for _, tc := range []struct{ file, want string }{{"page.md", clean}, {"other.go", clean + "-dirty"}} {
		if err := os.WriteFile(tc.file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := head("page.md"); err != nil || got != tc.want {
			t.Errorf("with a changed %s got %q, %v: want %q", tc.file, got, err, tc.want)
		}
	}
}

func TestVersionsAreChosen(t *testing.T) {
	if got, err := choose("1.31,1.35", minors); err != nil || !slices.Equal(got, []string{"1.31", "1.35"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := choose("", minors); err != nil || !slices.Equal(got, minors) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := choose("1.30", minors); err == nil || !strings.Contains(err.Error(), "expected some of 1.31, 1.33, 1.35, 1.37") {
		t.Errorf("got %v", err)
	}
}

func TestATierIsNamed(t *testing.T) {
	if err := runAll("", "1.31", "", ""); err == nil || !strings.Contains(err.Error(), "expected a tier with them, one of certmanager, ") {
		t.Errorf("got %v", err)
	}
	if err := runAll("other", "", "", ""); err == nil || !strings.Contains(err.Error(), `the tier is "other": expected one of certmanager, containerd, core, core-containerd, core-whereabouts, k3s, suites, whereabouts`) {
		t.Errorf("got %v", err)
	}
}

func TestWhatCleansUpRunsAfterAFailure(t *testing.T) {
	t.Chdir(t.TempDir())
	broken := tier{of: "Kubernetes", cleanup: []string{"sh", "-c", "echo cleaned"}, commands: func(string, string) [][]string { return [][]string{{"false"}, {"echo", "not this"}} }}
	_, err := broken.run("1.31", "log")
	if err == nil || !strings.Contains(err.Error(), "running on Kubernetes 1.31: false: exit status 1; its output is in log") {
		t.Errorf("got %v", err)
	}
	if out, err := os.ReadFile("log"); err != nil || string(out) != "cleaned\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestABusyMachineIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		loadavg string
		busy    bool
	}{
		"more than the processors can do, in the last minute and now": {"14.16 15.50 12.02 7/638 28391\n", true},
		"a build that just ended":                                     {"2.90 2.10 1.02 1/638 28391\n", false},
		"a moment of work":                                            {"0.40 0.10 0.02 7/638 28391\n", false},
		"a quiet machine":                                             {"0.40 0.10 0.02 1/638 28391\n", false},
		"no load average":                                             {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := busy(tc.loadavg, 2)
			if strings.HasPrefix(got, "==> warning: the machine is busy: load average 14.2, 6 tasks of other programs run now, 2 processors.") != tc.busy || (got != "") != tc.busy {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestEachMinorVersionIsPinned(t *testing.T) {
	for _, name := range []string{"whereabouts", "certmanager", "containerd"} {
		for _, minor := range tiers[name].minors {
			command := tiers[name].printed(minor, "")
			run := exec.Command(command[0], command[1:]...)
			run.Dir = "../.."
			if out, err := run.Output(); err != nil || !strings.HasPrefix(string(out), "v"+minor+".") {
				t.Errorf("%s: %q, %v", strings.Join(command, " "), out, err)
			}
		}
	}
}
