// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mount is a line of mountinfo.
type Mount struct {
	// Root is the part of the file system that is mounted, Point where.
	Root, Point string
	Type        string
	Source      string
}

// Mounts are those that this process sees.
func Mounts() ([]Mount, error) { return mountsOf("self") }

func mountsOf(process string) ([]Mount, error) {
	content, err := os.ReadFile("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return parseMounts(string(content))
}

// parseMounts reads the format of proc(5): fields, any number of optional ones,
// a hyphen, then type and source.
func parseMounts(content string) ([]Mount, error) {
	var mounts []Mount
	for line := range strings.Lines(content) {
		before, after, found := strings.Cut(strings.TrimSpace(line), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 6 || len(rest) < 2 {
			return nil, fmt.Errorf("mountinfo: unexpected line %q", line)
		}
		mounts = append(mounts, Mount{
			Root: unescape(fields[3]), Point: unescape(fields[4]), Type: rest[0], Source: unescape(rest[1]),
		})
	}
	return mounts, nil
}

// unescape undoes the octal codes of space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// MountsBelow lists the mounts, in any process, of files below a folder, and the
// mounts at places below it. A process in a mount namespace of its own shows what
// no other process sees.
func MountsBelow(folder string) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	device, err := mountOf(folder)
	if err != nil {
		return nil, err
	}
	inside := strings.TrimSuffix(device.Root, "/") + strings.TrimPrefix(folder, strings.TrimSuffix(device.Point, "/"))
	var found []string
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		mounts, err := mountsOf(entry.Name())
		if err != nil { // it ended meanwhile
			continue
		}
		for _, m := range mounts {
			if m.Source == device.Source && below(m.Root, inside) || below(m.Point, folder) {
				found = append(found, fmt.Sprintf("mount of %s at %s in process %s", m.Root, m.Point, entry.Name()))
			}
		}
	}
	return found, nil
}

func below(path, folder string) bool { return strings.HasPrefix(path+"/", folder+"/") }

// mountOf is the mount that a path is on: the longest that it is below.
func mountOf(path string) (Mount, error) {
	mounts, err := Mounts()
	if err != nil {
		return Mount{}, err
	}
	var best Mount
	for _, m := range mounts {
		if (below(path, m.Point) || m.Point == "/") && len(m.Point) >= len(best.Point) {
			best = m
		}
	}
	return best, nil
}
