// SPDX-License-Identifier: Apache-2.0

//go:debug randseednop=0

package sim

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 1, "first seed")
	numFlag   = flag.Int("sim.n", 1, "number of histories")
	logFlag   = flag.Bool("sim.log", false, "print the processes' logs")
	storyFlag = flag.Bool("sim.story", false, "print the story")
)

func play(t *testing.T, plan Plan) (result Result) {
	var sink logr.LogSink
	if *logFlag {
		sink = funcr.New(func(_, line string) { fmt.Println(time.Now().Format("15:04:05.000"), line) }, funcr.Options{Verbosity: 1}).GetSink()
	}
	synctest.Test(t, func(*testing.T) { result = Play(plan, sink) })
	return result
}

func TestDev(t *testing.T) {
	prepare()
	for i := range *numFlag {
		plan := NewPlan(*seedFlag+uint64(i), nil)
		plan.Faults = nil
		r := play(t, plan)
		if *storyFlag {
			for _, line := range r.Story {
				fmt.Println(line)
			}
		}
		fmt.Println("seed", plan.Seed, "steps", r.Steps, "rows", r.Rows, "faults", r.Faults)
		for _, v := range r.Violations {
			fmt.Println("  VIOLATION", v)
		}
	}
}
