// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// replayed is the seed of a history that is played from its schedule.
const replayed = 2

// record is a violated history, with its schedule.
type record struct {
	Seed     uint64   `json:"seed"`
	Keep     []int    `json:"keep"`
	Schedule []string `json:"schedule"`
}

func recordOf(seed uint64) string { return filepath.Join(*dir, fmt.Sprintf("seed-%d.json", seed)) }

func keepRecord(t *testing.T, r record) {
	t.Helper()
	if *dir == "" {
		return
	}
	raw, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(recordOf(r.Seed), raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// scheduleOf is the recorded schedule of a history; none if it was not recorded with these faults.
func scheduleOf(seed uint64, kept []int) []string {
	raw, err := os.ReadFile(recordOf(seed))
	var r record
	if err != nil || json.Unmarshal(raw, &r) != nil || !slices.Equal(r.Keep, kept) {
		return nil
	}
	return r.Schedule
}

// TestReplay plays one history, by its recorded schedule if there is one, and tells it.
func TestReplay(t *testing.T) {
	if *only == 0 {
		t.Log("no seed was given: nothing to replay")
		return
	}
	kept, err := faultsOf(*keep)
	if err != nil {
		t.Fatal(err)
	}
	plan, schedule, violated := NewPlan(*only, kept), scheduleOf(*only, kept), 0
	var last Result
	for range *times {
		if last = playBy(t, plan, schedule); len(last.Violations) > 0 {
			violated++
		}
	}
	lines := last.Story
	if *steps {
		lines = last.Schedule
	}
	fmt.Println(strings.Join(lines, "\n"))
	fmt.Printf("violated %d times of %d; recorded steps: %d, out of turn: %d\n", violated, *times, len(schedule), last.Derailed)
	if len(last.Violations) > 0 {
		t.Error(explain(plan, last, kept))
	}
}

// TestAHistoryIsReplayedFromItsSchedule: ten times of ten, each step in its turn.
func TestAHistoryIsReplayedFromItsSchedule(t *testing.T) {
	plan := NewPlan(replayed, nil)
	recorded := play(t, plan).Schedule
	for range 10 {
		again := playBy(t, plan, recorded)
		if again.Derailed > 0 || !slices.Equal(again.Schedule, recorded) {
			t.Errorf("%d of %d recorded steps were out of turn", again.Derailed, len(recorded))
		}
	}
}
