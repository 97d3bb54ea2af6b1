// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const secondsPerOperation = "seconds"

// poolGuard is the handler of a CNI DEL in a large pool, beside one look at each byte of the same review.
var poolGuard = goBenchmarks(10, page.Row{Name: "pool-guard", Title: "guard of a pool with 4,000 entries", Against: "`json.Valid` of the same review",
	Target: result.Target{Op: result.AtMost, Value: 3},
	Limit:  "The review is read once, and each of the two pools in it once more, without the entries that are the same in both."},
	"./webhooks", goBenchmark{ours, "BenchmarkPoolGuard/guard"}, goBenchmark{"json.Valid", "BenchmarkPoolGuard/valid"})

// agentQueries is an agent's look at a runtime, over its socket.
var agentQueries = goBenchmarks(10, page.Row{Name: "agent-queries", Title: "agent: one look at the runtime for 250 queries on 250 sandboxes that are not ready",
	Against: "one ListPodSandbox and their status calls", Target: result.Target{Op: result.AtMost, Value: 1.5},
	Limit: "A look asks for the runtime's version, its status and all containers, too, without which a list is no evidence."},
	"./internal/sandbox/cri", goBenchmark{ours, "BenchmarkQueries/list"}, goBenchmark{"bare calls", "BenchmarkQueries/bare"})

// auditUnchanged is an audit by itself, after a full one: its caches are filled, and no event has come since.
var auditUnchanged = goBenchmarks(3, page.Row{Name: "audit", Title: "audit at 100,000 entries, nothing changed", Against: "at 10,000 entries",
	Target: result.Target{Op: result.AtMost, Value: 1.1},
	Limit:  "An audit compares what changed since the last one; every sixth, not measured here, compares everything."},
	"./controllers/audit", goBenchmark{"100,000 entries", "BenchmarkAudit/100000"}, goBenchmark{"10,000 entries", "BenchmarkAudit/10000"})

// goBenchmark is an arm that runs a Go benchmark.
type goBenchmark struct{ arm, benchmark string }

// goBenchmarks compares the times of two Go benchmarks of a package.
func goBenchmarks(repeats int, of page.Row, packagePath string, measured, other goBenchmark) experiment {
	of.Unit = ratio
	return experiment{
		repeats: repeats,
		needs:   needs{noCluster: true},
		rows: []row{{Row: of, figure: func(turns map[string]result.Turn) float64 {
			return turns[measured.arm].Values[secondsPerOperation] / turns[other.arm].Values[secondsPerOperation]
		}}},
		prepare: func(ctx context.Context, w *world) ([]arm, error) {
			program, err := w.testBinary(ctx, packagePath)
			if err != nil {
				return nil, err
			}
			return []arm{w.goBench(measured.arm, program, measured.benchmark), w.goBench(other.arm, program, other.benchmark)}, nil
		},
	}
}

// testBinary builds the tests of a package of the measured version.
func (w *world) testBinary(ctx context.Context, packagePath string) (string, error) {
	if _, err := os.Stat(filepath.Join(w.options.Root, packagePath)); err != nil {
		return "", impossible("that version has no package " + strings.TrimPrefix(packagePath, "./"))
	}
	program := filepath.Join(w.dir, "benchmarks.test")
	_, err := process.Output(ctx, w.options.Root, "go", "test", "-c", "-o", program, packagePath)
	return program, err
}

// goBench is an arm that runs a Go benchmark for a second.
func (w *world) goBench(name, program, benchmark string) arm {
	return arm{name: name, run: func(ctx context.Context) (int, map[string]float64, error) {
		pattern := "^" + strings.ReplaceAll(benchmark, "/", "$/^") + "$"
		listed, err := process.Output(ctx, w.dir, program, "-test.list="+strings.Split(pattern, "/")[0])
		if err != nil {
			return 0, nil, err
		}
		if !strings.HasPrefix(listed, "Benchmark") {
			return 0, nil, impossible("no Go benchmark of that version is about it")
		}
		text, err := process.Output(ctx, w.dir, program, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime=1s", "-test.benchmem")
		if err != nil {
			return 0, nil, err
		}
		return parseGoBench(text)
	}}
}

// parseGoBench reads the first line of results: the name, the number of operations, and pairs of value and unit.
func parseGoBench(text string) (int, map[string]float64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		operations, err := strconv.Atoi(fields[1])
		if err != nil {
			return 0, nil, fmt.Errorf("line %q: %w", line, err)
		}
		values := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return 0, nil, fmt.Errorf("line %q: %w", line, err)
			}
			values[fields[i+1]] = value
		}
		values[secondsPerOperation] = values["ns/op"] / 1e9
		delete(values, "ns/op")
		return operations, values, nil
	}
	return 0, nil, fmt.Errorf("no benchmark ran; its output was %q", text)
}
