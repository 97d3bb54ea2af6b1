// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	cases := map[string]struct {
		events []string
		want   string
		shown  string
		hidden string
	}{
		"a test with subtests is its subtests": {
			events: []string{
				`{"Action":"pass","Package":"p","Test":"TestA/one"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/two"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Elapsed":1.5}`,
			},
			want:  "2 passed, 0 failed",
			shown: "ok   p: 2 passed, 0 failed in 1.5 s",
		},
		"a test that fails beside its passing subtests is a failure": {
			events: []string{
				`{"Action":"pass","Package":"p","Test":"TestA/one"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"left a goroutine\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p","Elapsed":1}`,
			},
			want:  "1 passed, 1 failed",
			shown: "left a goroutine",
		},
		"a Ginkgo suite is its specs": {
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"\u001b[1mFAIL!\u001b[0m -- \u001b[38;5;10m\u001b[1m7 Passed\u001b[0m | \u001b[1m2 Failed\u001b[0m | 0 Pending | 1 Skipped\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestSuite"}`,
				`{"Action":"fail","Package":"p","Elapsed":9}`,
			},
			want:  "7 passed, 2 failed",
			shown: "FAIL p: 7 passed, 2 failed in 9.0 s",
		},
		"steps and tables are shown though the suite passes": {
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"==> passed after 3 s: a spec\n"}`,
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"not for everybody\n"}`,
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"| duplicates | spec\n"}`,
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"-- 1 Passed | 0 Failed | 0 Pending | 0 Skipped\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestSuite"}`,
				`{"Action":"pass","Package":"p","Elapsed":9}`,
			},
			want:   "1 passed, 0 failed",
			shown:  "==> passed after 3 s: a spec\n| duplicates | spec\nok   p: 1 passed",
			hidden: "not for everybody",
		},
		"a suite that fails outside its specs is a failure": {
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"-- 3 Passed | 0 Failed | 0 Pending | 0 Skipped\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestSuite"}`,
				`{"Action":"fail","Package":"p","Elapsed":9}`,
			},
			want: "0 passed, 1 failed",
		},
		"a package that does not build is a failure and shows why": {
			events: []string{
				`{"Action":"build-output","ImportPath":"p [p.test]","Output":"x.go:1: undefined: y\n"}`,
				`{"Action":"build-fail","ImportPath":"p [p.test]"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p [p.test]"}`,
			},
			want:  "0 passed, 1 failed",
			shown: "undefined: y",
		},
		"a package that panics is a failure": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"panic: boom\n"}`,
				`{"Action":"fail","Package":"p","Elapsed":0}`,
			},
			want:  "0 passed, 1 failed",
			shown: "panic: boom",
		},
		"the output of a passing test stays out of a failing package's report": {
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"all is well\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"got 1, want 2\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestB"}`,
				`{"Action":"fail","Package":"p","Elapsed":0}`,
			},
			want:   "1 passed, 1 failed",
			shown:  "got 1, want 2",
			hidden: "all is well",
		},
		"a suite says which specs the API server cannot show": {
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"==> left out: 2 specs, which need what it does not serve (X)\n"}`,
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"-- 7 Passed | 0 Failed | 0 Pending | 3 Skipped\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestSuite"}`,
				`{"Action":"pass","Package":"p","Elapsed":9}`,
			},
			want:  "7 passed, 0 failed, 2 left out",
			shown: "==> left out: 2 specs",
		},
		"packages add up": {
			events: []string{
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"q","Test":"TestA"}`,
				`{"Action":"pass","Package":"q"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want: "2 passed, 0 failed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var shown strings.Builder
			got, err := count(strings.NewReader(strings.Join(tc.events, "\n")), &shown)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != tc.want {
				t.Errorf("counted %q, want %q", got, tc.want)
			}
			if !strings.Contains(shown.String(), tc.shown) {
				t.Errorf("output %q lacks %q", shown.String(), tc.shown)
			}
			if tc.hidden != "" && strings.Contains(shown.String(), tc.hidden) {
				t.Errorf("output %q has %q", shown.String(), tc.hidden)
			}
		})
	}
}

func TestCountRefusesWhatIsNoEvent(t *testing.T) {
	if got, err := count(strings.NewReader("ok  p 1s"), &strings.Builder{}); err == nil {
		t.Errorf("counted %v from plain text, want an error", got)
	}
}

func TestTheTimeOfATierIsThatOfAllItsModules(t *testing.T) {
	var spent seconds
	spent.add("unit tests", 2*time.Second)
	spent.add("suites", 3*time.Second)
	spent.add("unit tests", 5*time.Second)
	if got, want := spent.String(), "unit tests 7 s, suites 3 s"; got != want {
		t.Errorf("the times are %q; expected %q", got, want)
	}
}

func TestKindOf(t *testing.T) {
	cases := map[string]kind{
		"test/integration":           suite,
		"test/e2e/observer":          suite,
		"test/e2e/cluster":           machine,
		"test/node":                  machine,
		"hack/dev/test/guarded":      nodes,
		"hack/dev/test/shapes":       extended,
		"hack/dev/test/quickstart":   extended,
		"hack/release":               extended,
		"hack/release/internal/sbom": unit,
		"hack/dev/test/sim/explore":  simulation,
		"internal/release":           unit,
		"testdata":                   unit,
	}
	for folder, want := range cases {
		if got := kindOf(folder); got != want {
			t.Errorf("kindOf(%q) = %d, want %d", folder, got, want)
		}
	}
}

func TestSelectSequencesRefusesAnUnknownKind(t *testing.T) {
	if sequences, err := selectSequences("fast"); err == nil {
		t.Errorf("got %v for an unknown kind of test, want an error", sequences)
	}
}
