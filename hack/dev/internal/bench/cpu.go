// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond of the times in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Kubernetes runs on (proc_pid_stat(5)).
const ticksPerSecond = 100

// cpuSeconds is the processor time of each process so far.
func cpuSeconds(processes map[string]int) (map[string]float64, error) {
	all := make(map[string]float64, len(processes))
	for name, pid := range processes {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return nil, fmt.Errorf("processor time of %s: %w", name, err)
		}
		if all[name], err = parseStat(content); err != nil {
			return nil, fmt.Errorf("processor time of %s: %w", name, err)
		}
	}
	return all, nil
}

// parseStat adds utime and stime, the 14th and 15th field. The second is the program's name, which may have spaces and parentheses.
func parseStat(content []byte) (float64, error) {
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("%d fields after the name, expected more than %d", len(fields), stime)
	}
	ticks := 0
	for _, field := range fields[utime : stime+1] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

// loadAverage is that of the last minute.
func loadAverage() (float64, error) {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), " ")
	return strconv.ParseFloat(first, 64)
}
