// SPDX-License-Identifier: Apache-2.0

//go:debug randseednop=0

package sim

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var (
	first  = flag.Uint64("sim.seed", 1, "first seed of an exploration")
	stride = flag.Uint64("sim.stride", 1, "what lies between two seeds of an exploration")
	count  = flag.Int("sim.count", 0, "number of histories to explore")
	budget = flag.Duration("sim.budget", 0, "time to explore")
	twice  = flag.Int("sim.twice", 0, "number of histories that are played twice")
	out    = flag.String("sim.out", "", "file for the report of an exploration")
	only   = flag.Uint64("sim.only", 0, "seed of the one history to play")
	keep   = flag.String("sim.keep", "all", "which faults of that history are played: all, none, or as i,j,k")
	times  = flag.Int("sim.times", 1, "how many times that history is played")
	dir    = flag.String("sim.dir", "", "folder for the schedules of violated histories")
	logs   = flag.Bool("sim.log", false, "print what manager and agents log")
	stop   = flag.Bool("sim.stop", false, "end the exploration at the first history that is violated")
	steps  = flag.Bool("sim.steps", false, "print every step")
)

// fixed are the first seeds, and regressions those that were violated once: by the product, by a planted bug, or because the simulator was wrong.
const fixed = 60

var regressions = []uint64{23, 30, 35, 49, 52, 60, 138, 205, 315, 338, 1014}

// shrunk are those whose shrunk histories are told in a decision or a commit: a seed, and the faults that are played of it.
var shrunk = map[uint64][]int{
	1796111010162: {0, 2, 6},             // a report without IDs left a machine in a GuardedNode that was never gone
	1796111010149: {0, 2, 3, 7},          // the leader that was left did not observe again while no machine was gone
	1796110010108: {0, 1, 2, 3, 4},       // of two leaders the one that was left never ended a delay (docs/decisions/0276)
	1796050010169: {1, 3, 8},             // a claim under a Node UID that is not known any more held an orphan for ever
	2044:          {1, 2, 3, 4, 6},       // the next pod with a name inherited an unowned entry (docs/decisions/0147)
	494440000888:  {1, 2, 3, 4, 5},       // an orphan's record was deleted while it was written, and its release failed for ever
	494440000902:  {0, 1},                // a tombstone of a pod's record was not replaced by that of the orphan's
	499093000461:  {2, 6},                // the replaced machine of an orphan was disputed for ever
	700261:        {0, 2, 3},             // the orphan's record was deleted while the entry had the tombstone of the pod's
	14166446097:   {1, 3},                // no record had a lost sandbox, and the next one was disowned (docs/decisions/0314)
	771101724:     {1},                   // without agents, a tenant's network-status stood for what the kubelet knew (docs/decisions/0315)
	771103154:     {0, 1, 2, 3, 4, 5, 7}, // a claim for another sandbox of a pod stood after that sandbox
	9863292256:    {1, 2, 3, 4, 5, 6, 8}, // without agents, a watch of the pools that expired was late, which the check did not allow for
	882000391:     {5, 6, 9, 10, 12},     // the operator did not release an orphan of a replaced machine by hand
	15878412200:   {5, 6},                // the operator released no address by hand that another sandbox had by now
	22164173540:   {7, 8},                // without agents, a clock that was set forward made a wait shorter, which the check did not allow for
	19862462882:   {5},                   // two pods that had addresses of each other's earlier sandboxes waited for each other (docs/decisions/0317)
	19214663187:   {0, 1, 4, 5, 6},       // an address of an earlier sandbox was held as long as its pod lived, though another pod had it (0317)
	301000000085:  {},                    // an earlier sandbox that only its ADD tied to its pod was disowned, and never proven gone (0317)
	994000710:     {4},                   // an address of an earlier sandbox of a pod is held as long as the pod lives (docs/limits.md)
	881001558:     {1, 6},                // an orphan waited for the pod that had disowned it and had its address, and the pod for the orphan
	517622000832:  {2, 6},                // a person has to end these six, since no agent can be queried (docs/runbook/reasons/waits.md)
	527517000535:  {0},                   // a late cache of the pools ended the record of a tombstone, and with it the podref from before
	527517000544:  {2, 4, 7},
	517622000944:  {0, 2, 3, 4},
	517622000968:  {2, 3},
	517622001156:  {3, 4},
	517622001708:  {2, 3},
	494440001592:  {0, 2}, // the pod that disowned a sandbox was taken for its owner
	527517000087:  {2},    // a late cache of the pools gave a pod the sandbox of its predecessor (docs/decisions/0210)
	910683:        {6},
	910869:        {2},
	910116:        {0, 1, 9},                   // the clock of the manager was behind, and hid the machine of a sandbox (docs/decisions/0211)
	728:           {0, 1},                      // a merged watch of the pools showed an ADD after its pod was over (docs/decisions/0212)
	3359:          {1},                         // a runtime lost a sandbox with two addresses, and a late watch of the pools never showed it (docs/decisions/0230)
	2756:          {0, 1, 2, 3, 5, 6, 7, 8, 9}, // the simulator forgot at the second ADD of a sandbox why its owner was unknown
	539862000340:  {2, 4, 5},                   // an orphan without agents held the next sandbox's pod for ever (docs/decisions/0240)
	1795610959950: {2, 3, 5},                   // a pod that lost its finalizer between two sandboxes was not protected again
	1795610960347: {0, 1, 2, 4, 5},             // the same, behind a late watch of the pools
	1795549987491: {0, 2, 3, 4},                // a person kept the addresses of a pod before the ADD of its sandbox (docs/decisions/0206)
	1795549987520: {0, 1, 2, 3, 4, 5},          // the watch of the pools showed an ADD before that of the pods showed the binding (docs/decisions/0260)
	14310857361:   {3, 6, 7, 8, 9},             // the machine of a claim booted before the claim was acted on, and counted as another one
	1795549988240: {0, 1, 2, 3, 4},
	1795620011572: {9},          // a watch that was late behind a change for longer than the simulator knew
	1795620022724: {3},          // without agents, a sandbox that was being created was taken for one that its kubelet knew
	1795620012777: {3, 4, 8},    // the release of one sandbox left the entry of another one to the next pod of the name
	1795660010875: {1, 5, 6, 7}, // the server did not default a status, so that no agent's answer was accepted
	1795720010537: {0, 1, 2, 4}, // the record of a tombstone that a late cache did not show took its podref from the tombstone
	1795620021391: {7, 9},       // a pod took the late ADD of its predecessor, which no replica had seen, for its own and waited for ever (docs/decisions/0269)
	1795640010453: {1, 3, 5},    // a second leader made an entry again for a record that the first one had deleted
	1795620021077: {2, 5},       // an orphan that was gone waited for the pod that waited for it
	1795620020339: {1, 4},       // a person ended a conflict, and the waits after it were longer than the rest of the history
}

// play plays the history of a plan in a bubble of its own.
func play(t *testing.T, plan Plan) Result {
	t.Helper()
	return playBy(t, plan, nil)
}

// playBy plays it by a recorded schedule.
func playBy(t *testing.T, plan Plan, schedule []string) (result Result) {
	t.Helper()
	var sink logr.LogSink
	if *logs {
		sink = funcr.New(func(_, line string) { fmt.Println(time.Now().Format("15:04:05.000"), line) }, funcr.Options{Verbosity: 1}).GetSink()
	}
	if plays++; plays%collectEvery == 0 {
		runtime.GC()
	}
	synctest.Test(t, func(*testing.T) { result = Play(plan, sink, schedule) })
	return result
}

// The garbage collector interrupts the running goroutine, and then another one runs first. It runs between histories, or at a limit that no history
// reaches (docs/decisions/0190).
const (
	collectEvery = 2
	memoryLimit  = 3 << 30
)

var plays int

func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1) // what the scheduler does not decide is then the same in every run
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
	runtime.MemProfileRate = 0
	log.SetLogger(logr.Discard()) // without one, every logger that is made is kept for the one to come
	prepare()
	os.Exit(m.Run())
}

func TestRegressions(t *testing.T) {
	seeds := slices.Clone(regressions)
	for seed := range uint64(fixed) {
		seeds = append(seeds, seed+1)
	}
	for _, seed := range seeds {
		if r := play(t, NewPlan(seed, nil)); len(r.Violations) > 0 {
			t.Errorf("seed %d: %s", seed, explain(NewPlan(seed, nil), r, nil))
		}
	}
	for seed, kept := range shrunk {
		if r := play(t, NewPlan(seed, kept)); len(r.Violations) > 0 {
			t.Errorf("seed %d: %s", seed, explain(NewPlan(seed, kept), r, kept))
		}
	}
}

func TestTheSameSeedIsTheSameHistory(t *testing.T) {
	for seed := range uint64(2) {
		if compare(t, seed+1, play(t, NewPlan(seed+1, nil))) >= 0 {
			t.Errorf("seed %d is not the same history twice", seed+1)
		}
	}
}

// compare plays a seed again, and gives the first step that differs; -1 if none does.
func compare(t *testing.T, seed uint64, first Result) int {
	t.Helper()
	a, b := first.Schedule, play(t, NewPlan(seed, nil)).Schedule
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			fmt.Printf("seed %d differs from step %d of %d and %d on\n  %s\n  %s\n  %s\n", seed, i, len(a), len(b), strings.Join(a[max(0, i-3):min(i, len(a))], "\n  "),
				strings.Join(a[min(i, len(a)):min(i+1, len(a))], ""), strings.Join(b[min(i, len(b)):min(i+1, len(b))], ""))
			return i
		}
	}
	return -1
}

// TestExplore plays as many histories as it is given time for; make explore runs it.
func TestExplore(t *testing.T) {
	if *budget == 0 && *count == 0 {
		t.Log("no time was given: nothing to explore")
		return
	}
	report, began := NewReport(), time.Now()
	report.First, report.Stride = *first, *stride
	for seed := *first; report.Histories < *count || time.Since(began) < *budget; seed += *stride {
		progress(seed)
		result := play(t, NewPlan(seed, nil))
		report.Add(seed, result)
		if len(result.Violations) > 0 {
			kept, shortest := shrink(t, seed, result)
			fmt.Printf("seed %d: %s\n", seed, explain(NewPlan(seed, kept), shortest, kept))
			keepRecord(t, record{seed, kept, shortest.Schedule})
		}
		if *stop && report.Violations > 0 {
			t.Errorf("seed %d, history %d: %s", seed, report.Histories, result.Violations[0])
			break
		}
		if report.Twice < *twice {
			report.Twice++
			if compare(t, seed, result) >= 0 {
				report.Different++
			}
		}
		report.Seconds = time.Since(began).Seconds()
		save(t, report)
	}
	if *out == "" {
		fmt.Println(report)
	}
}

// progress leaves the seed that is being played where the parent finds it, should this process die.
func progress(seed uint64) {
	if *out != "" {
		_ = os.WriteFile(*out+".seed", []byte(strconv.FormatUint(seed, 10)), 0o644)
	}
}

func save(t *testing.T, report *Report) {
	t.Helper()
	if *out == "" {
		return
	}
	if err := report.Write(*out); err != nil {
		t.Fatal(err)
	}
}

// shrink leaves out faults as long as the history is violated in the same way.
func shrink(t *testing.T, seed uint64, result Result) ([]int, Result) {
	t.Helper()
	var kept []int
	for i := range NewPlan(seed, nil).Faults {
		kept = append(kept, i)
	}
	for i := len(kept) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(kept), i, i+1)
		r := play(t, NewPlan(seed, fewer))
		if len(r.Violations) > 0 && r.Violations[0].Check == result.Violations[0].Check {
			kept, result = fewer, r
		}
	}
	return kept, result
}

// explain is the story of a violated history, and how to play it again.
func explain(plan Plan, r Result, kept []int) string {
	var text strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintf(&text, "\n  %s", v)
	}
	for _, f := range plan.Faults {
		fmt.Fprintf(&text, "\n  with %s", f)
	}
	keep := "all"
	if kept != nil {
		keep = cmp.Or(strings.Trim(strings.ReplaceAll(fmt.Sprint(kept), " ", ","), "[]"), "none")
	}
	fmt.Fprintf(&text, "\n  play it again: make explore ONLY=%d KEEP=%s", plan.Seed, keep)
	return text.String()
}

// faultsOf reads which faults are played; nil is all.
func faultsOf(text string) ([]int, error) {
	kept := []int{}
	switch text {
	case "all":
		return nil, nil
	case "none":
		return kept, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(one)
		if err != nil {
			return nil, err
		}
		kept = append(kept, i)
	}
	return kept, nil
}
