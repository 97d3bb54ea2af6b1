// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuSeconds is the processor time of each process so far, of all its threads, by the process's own clock.
func cpuSeconds(processes map[string]int) (map[string]float64, error) {
	all := make(map[string]float64, len(processes))
	for name, pid := range processes {
		var used unix.Timespec
		if err := unix.ClockGettime(clockOf(pid), &used); err != nil {
			return nil, fmt.Errorf("processor time of %s: %w", name, err)
		}
		all[name] = time.Duration(used.Nano()).Seconds()
	}
	return all, nil
}

// clockOf is what clock_getcpuclockid(3) gives, which is not in the package unix: CPUCLOCK_SCHED of a process (linux/posix-timers.h).
func clockOf(pid int) int32 { return int32(^pid<<3 | 2) }

// loadAverage is that of the last minute.
func loadAverage() (float64, error) {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), " ")
	return strconv.ParseFloat(first, 64)
}
