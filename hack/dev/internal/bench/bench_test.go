// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

func TestEveryRowHasANameOfItsOwnAndSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rows() {
		if seen[r.Name] || r.Title == "" || r.Unit == "" || r.Target.Op == "" {
			t.Errorf("row %+v", r)
		}
		seen[r.Name] = true
	}
	for _, e := range experiments {
		for _, r := range e.rows {
			if r.Limit == "" || r.figure == nil || (e.repeats < 3 && !e.named) {
				t.Errorf("row %s has no reason for a miss, no figure or too few repeats", r.Name)
			}
		}
	}
}

func TestOnlyTheRowsThatAreWantedAreMeasured(t *testing.T) {
	o := Options{Results: t.TempDir()}
	complete := len(slices.DeleteFunc(slices.Clone(experiments), isNamed))
	if chosen, err := o.choose(); err != nil || len(chosen) != complete {
		t.Errorf("without a choice: %d of %d experiments, error %v", len(chosen), len(experiments), err)
	}
	o.Only = []string{"webhook-cpu"}
	if chosen, err := o.choose(); err != nil || len(chosen) != 1 || chosen[0].rows[0].Name != "webhook-cpu" {
		t.Errorf("one by name: %d experiments, error %v", len(chosen), err)
	}
	o.Only = []string{"no-such-row"}
	if _, err := o.choose(); err == nil || !strings.Contains(err.Error(), "webhook-cpu") {
		t.Errorf("an unknown row: error %v, which has to name those that exist", err)
	}
	o.Only, o.Missing = nil, true
	written, err := result.New("webhook-cpu", ratio, "", result.Target{Op: result.AtMost, Value: 1}, []result.Sample{{Figure: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := written.Write(o.Results); err != nil {
		t.Fatal(err)
	}
	if chosen, err := o.choose(); err != nil || len(chosen) != complete-1 {
		t.Errorf("those without a file: %d of %d experiments, error %v", len(chosen), len(experiments), err)
	}
}

func isNamed(e experiment) bool { return e.named }

func TestWhatTakesAnHourIsMeasuredOnlyByName(t *testing.T) {
	o := Options{Results: t.TempDir()}
	if chosen, err := o.choose(); err != nil || slices.ContainsFunc(chosen, isNamed) {
		t.Errorf("in a complete run too, error %v", err)
	}
	o.Only = []string{manyNodesDeleted.rows[0].Name}
	if chosen, err := o.choose(); err != nil || len(chosen) != 1 || !chosen[0].named {
		t.Errorf("by name: %d experiments, error %v", len(chosen), err)
	}
}

func TestTheWatchesAreThoseOfTheMeasuredVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		definitions map[string]string
		want        []string
		inNodes     bool
	}{
		"queries are in records, those to all nodes too": {want: []string{"ipallocations?spec.nodeName=n", "ipallocations?spec.nodeName="}},
		"queries to all nodes are in an object": {
			definitions: map[string]string{"allnodesqueries": "", "guardednodes": "spec: {versions: [{schema: {openAPIV3Schema: {properties: {spec: {properties: {machines: {}}}}}}}]}"},
			want:        []string{"ipallocations?spec.nodeName=n", "allnodesqueries?metadata.name=all"}},
		"queries are in GuardedNodes": {
			definitions: map[string]string{"allnodesqueries": "", "guardednodes": "spec: {versions: [{schema: {openAPIV3Schema: {properties: {spec: {properties: {queries: {}}}}}}}]}"},
			want:        []string{"guardednodes?metadata.name=n", "allnodesqueries?metadata.name=all"}, inNodes: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{options: Options{Root: t.TempDir()}}
			if err := os.MkdirAll(filepath.Dir(w.definition("x")), 0o750); err != nil {
				t.Fatal(err)
			}
			for resource, text := range tc.definitions {
				if err := os.WriteFile(w.definition(resource), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			inNodes, err := w.hasQueriesInNodes()
			if err != nil || inNodes != tc.inNodes {
				t.Fatalf("queries in GuardedNodes: %t, error %v", inNodes, err)
			}
			var got []string
			for _, of := range w.agentWatches(inNodes) {
				got = append(got, of.kind+"?"+of.selector("n"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("watches (-want +got):\n%s", diff)
			}
		})
	}
	if inNodes, err := (&world{options: Options{Root: filepath.Join("..", "..", "..", "..")}}).hasQueriesInNodes(); err != nil || !inNodes {
		t.Errorf("this version: queries in GuardedNodes: %t, error %v", inNodes, err)
	}
}

func TestProcessorTimeIsThatOfAProcessWithItsThreads(t *testing.T) {
	const own, rounded = "own", 2e-6 // getrusage(2) gives microseconds, and no fractions
	read := func() float64 {
		used, err := cpuSeconds(map[string]int{own: os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		return used[own]
	}
	usage := func() float64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	before, got, after := usage(), read(), usage()
	if got < before-rounded || got > after+rounded {
		t.Errorf("%v seconds, want %v to %v", got, before, after)
	}
	if _, err := cpuSeconds(map[string]int{"none": 1 << 23}); err == nil { // past the highest PID of Linux, 1 << 22
		t.Error("a process that does not exist has processor time")
	}
}

func TestAGoBenchmarkIsReadWithItsAllocations(t *testing.T) {
	operations, values, err := parseGoBench("goos: linux\nBenchmarkPoolGuard/guard-2   \t  50\t 2000000 ns/op\t  300 B/op\t  7 allocs/op\nPASS\n")
	if diff := cmp.Diff(map[string]float64{secondsPerOperation: 0.002, "B/op": 300, "allocs/op": 7}, values); diff != "" || operations != 50 || err != nil {
		t.Errorf("%d operations, error %v, values (-want +got):\n%s", operations, err, diff)
	}
	if _, _, err := parseGoBench("PASS\n"); err == nil {
		t.Error("output without a benchmark is no error")
	}
}

func TestCallsAreCountedByVerbAndResource(t *testing.T) {
	log := strings.ReplaceAll(`{"verb":"get",MANAGER,"objectRef":{"resource":"pods"}}
{"verb":"get",MANAGER,"requestURI":"/apis"}
{"verb":"watch","stage":"ResponseStarted",MANAGER,"objectRef":{"resource":"pods"}}
{"verb":"watch","stage":"ResponseStarted",MANAGER,"objectRef":{"resource":"nodes"}}
{"verb":"list",MANAGER,"objectRef":{"resource":"ipallocations"}}
{"verb":"create","user":{"username":"`+agentUser+`"},"objectRef":{"resource":"events"}}
{"verb":"patch",MANAGER,"objectRef":{"resource":"pods","subresource":"status"}}
{"verb":"watch","stage":"ResponseComplete",MANAGER,"objectRef":{"resource":"nodes"}}
{"verb":"patch",MANAGER,"objectRef":{"reso`, "MANAGER", `"user":{"username":"`+managerUser+`"}`)
	counted, watches, err := parseAudit([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{reads: 1, lists: 0.5, writes: 0.5, "discovery": 0.5, "get pods": 0.5, "list ipallocations": 0.5, "patch pods/status": 0.5}
	if diff := cmp.Diff(want, counted[managerUser].per(2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if counted[agentUser].writes() != 1 || watches[managerUser] != 1 || watches[agentUser] != 0 {
		t.Errorf("calls of the agent %v, open watches %v", counted[agentUser], watches)
	}
}

func TestAMetricIsTheSumOverTheLabelsThatAreAskedFor(t *testing.T) {
	text := []byte("# TYPE a counter\na 3\nab 7\nb{name=\"x.holdfast.dev\",op=\"1\"} 2\nb{name=\"x.holdfast.dev\",op=\"2\"} 3e0\nb{name=\"other\"} 5\n")
	for name, c := range map[string]struct {
		labels string
		want   float64
	}{"a": {"", 3}, "b": {".holdfast.dev", 5}} {
		if got, err := metric(text, name, c.labels); got != c.want || err != nil {
			t.Errorf("%s: got %v, error %v", name, got, err)
		}
	}
	if _, err := metric(text, "none", ""); err == nil {
		t.Error("a metric that is not there is no error")
	}
}

func TestTheLargestEntriesOfAProfileAreNamedWithTheirShares(t *testing.T) {
	text := "File: manager\nType: cpu\nDuration: 3s, Total samples = 1.00s (33.33%)\n      flat  flat%   sum%        cum   cum%\n" +
		"     0.20s 20.00% 20.00%      0.50s 50.00%  runtime.scan\n         0     0% 20.00%      0.30s 30.00%  a.(*B[go.shape.int]).c (inline)\n"
	if diff := cmp.Diff([]string{"of 1.00s", "20.00% runtime.scan", "0% a.(*B[go.shape.int]).c (inline)"}, parseTop(text, "", false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parseTop(text, "all of ", true); len(got) != 2 || got[1] != "all of 30.00% a.(*B[go.shape.int]).c (inline)" {
		t.Errorf("with what they call: %q", got)
	}
}
