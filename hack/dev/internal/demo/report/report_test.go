// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

const (
	oldSandbox = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
	newSandbox = "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0"
)

var address = netip.MustParseAddr("10.80.0.1")

// sandbox is the sample of one that holds the address since a moment, and ends at another one; 0 is never.
func sandbox(now float64, id, pod, node string, since, ended float64) history.Sandbox {
	s := history.Sandbox{
		ID: id, Node: node, Pod: pod, PodUID: "uid-" + id[:4], Alive: ended == 0 || now < ended, Ready: ended == 0 || now < ended,
		Addresses: []history.Address{{IP: address, Since: at(since)}},
	}
	if !s.Alive {
		s.Ended = at(ended)
	}
	return s
}

// sampled makes a history of 30 seconds in which one sandbox, or a second one too, has the address, and the pool's
// entry names what named says (empty: no entry).
func sampled(firstEnds, secondStarts float64, named func(now float64) string) history.History {
	var h history.History
	for now := 0.0; now <= 30; now += 0.5 {
		sample := history.Sample{At: at(now), Nodes: map[string]history.NodeState{"node-1": history.NodeLive}}
		if now >= 2 {
			sample.Sandboxes = append(sample.Sandboxes, sandbox(now, oldSandbox, "demo/web-0", "node-1", 2, firstEnds))
		}
		if secondStarts > 0 && now >= secondStarts {
			sample.Sandboxes = append(sample.Sandboxes, sandbox(now, newSandbox, "demo/web-0", "node-2", secondStarts, 0))
		}
		if id := named(now); id != "" {
			sample.Entries = append(sample.Entries, history.Entry{Pool: "kube-system/10.80.0.0-29", IP: address, SandboxID: id, PodRef: "demo/web-0"})
		}
		h = append(h, sample)
	}
	return h
}

func sampleReport() Report {
	duplicate := sampled(22, 9, func(now float64) string {
		if now < 9 {
			return oldSandbox
		}
		return newSandbox
	})
	held := sampled(12, 20, func(now float64) string {
		switch {
		case now < 17:
			return oldSandbox
		case now >= 20:
			return newSandbox
		}
		return ""
	})
	leak := sampled(6, 0, func(float64) string { return oldSandbox })
	events := []history.Event{
		{At: at(4), Text: "the kubelet of node-1 is frozen"},
		{At: at(4.2), Text: "web-0 is force-deleted"},
		{At: at(22), Text: `node-1 is powered off <at once> & "for good"`},
	}
	return Report{
		Setting: []string{"Real: kube-apiserver v1.37.1.", "Simulated: the nodes."},
		Scenarios: []Scenario{
			{
				Name: "frozen-node", Title: "A pod is force-deleted while its node is frozen",
				Harm: "The successor gets the address of a live sandbox.", Guard: "The pod is held.",
				Off: Judge(duplicate, events, at(0), at(30)),
				On:  Judge(held, events, at(0), at(28.26)),
			},
			{
				Name: "lost-del", Title: "CNI DEL cannot reach the API server",
				Harm: "The entry stays.", Guard: "The entry is released.",
				Off: Judge(leak, events[:1], at(0), at(30)),
				On:  failed(Judge(leak, events[:1], at(0), at(30))),
			},
			{Name: "never-played", Title: "Something that was not played", Harm: "None.", Guard: "Nothing."},
		},
	}
}

func failed(run *Run) *Run {
	run.Failed = true
	return run
}

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run `go test -update` to write it", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), `go test -update` accepts it:\n%s", path, diff)
	}
}

func TestJSONIsAsOthersReadIt(t *testing.T) {
	got, err := sampleReport().JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", got)

	var file map[string][]map[string]any
	if err := json.Unmarshal(got, &file); err != nil {
		t.Fatalf("not the documented form: %v", err)
	}
	want := map[string]any{"name": "frozen-node", "guard": false, "duplicates": 1.0, "leaks": 0.0, "seconds": 30.0}
	if diff := cmp.Diff(want, file["scenarios"][0]); diff != "" {
		t.Errorf("first element (-want +got):\n%s", diff)
	}
}

func TestJSONOfNothingHasAnEmptyList(t *testing.T) {
	got, err := Report{}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"scenarios\": []\n}\n"; string(got) != want {
		t.Errorf("JSON() = %q, want %q", got, want)
	}
}

func TestTable(t *testing.T) { golden(t, "table.txt", []byte(sampleReport().Table())) }

func TestHTML(t *testing.T) {
	got, err := sampleReport().HTML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.html", got)
}

func TestHTMLNeedsNoOtherFile(t *testing.T) {
	got, err := sampleReport().HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{"<script", "<link", "<img", "@import", "url(", "src="} {
		if strings.Contains(string(got), foreign) {
			t.Errorf("the page contains %q", foreign)
		}
	}
	for _, address := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(string(got), -1) {
		if !strings.HasPrefix(address[1], "#") {
			t.Errorf("the page links to %q outside itself", address[1])
		}
	}
	if strings.Contains(string(got), "ZgotmplZ") {
		t.Error("the template refused a value as unsafe")
	}
}

func TestHTMLEscapesItsInput(t *testing.T) {
	got, err := sampleReport().HTML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got), "<at once>") {
		t.Error("the text of an event is in the page as markup")
	}
}

func TestVerdict(t *testing.T) {
	quiet, harmed := &Run{}, &Run{Duplicates: 1, Leaks: 2}
	cases := map[string]struct {
		off, on *Run
		want    []string
	}{
		"harm without the guard, none with it":    {off: harmed, on: quiet},
		"a duplicate alone is harm":               {off: &Run{Duplicates: 1}, on: quiet},
		"a leak alone is harm":                    {off: &Run{Leaks: 1}, on: quiet},
		"no harm without the guard shows nothing": {off: quiet, on: quiet, want: []string{"x, guard off: no duplicate and no leak"}},
		"harm with the guard":                     {off: harmed, on: harmed, want: []string{"x, guard on: duplicates 1, leaks 2"}},
		"a run without an end with the guard":     {off: harmed, want: []string{"x, guard on: the run did not come to an end"}},
		"a failed run proves nothing, with any counts": {
			off: &Run{Duplicates: 1, Failed: true}, on: &Run{Failed: true},
			want: []string{"x, guard off: the run did", "x, guard on: the run did"},
		},
		"neither run came to an end: both are reported": {want: []string{"x, guard off: the run", "x, guard on: the run"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := Report{Scenarios: []Scenario{{Name: "x", Off: c.off, On: c.on}}}.Verdict()
			if len(c.want) == 0 {
				if err != nil {
					t.Errorf("Verdict() = %v, want nil", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("Verdict() = nil, want an error with %q", c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Verdict() = %q, want it to contain %q", err, want)
				}
			}
		})
	}
}
