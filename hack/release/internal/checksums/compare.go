// SPDX-License-Identifier: Apache-2.0

package checksums

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Compare reads both folders and gives a sentence for each file that is not in
// both with the same bytes, sorted by path, and how many files are.
func Compare(first, second string) (differences []string, same int, err error) {
	one, err := List(first)
	if err != nil {
		return nil, 0, err
	}
	two, err := List(second)
	if err != nil {
		return nil, 0, err
	}
	names := slices.Compact(slices.Sorted(slices.Values(slices.Concat(one, two))))
	for _, name := range names {
		difference, err := compareFile(filepath.Join(first, name), filepath.Join(second, name))
		if err != nil {
			return nil, 0, err
		}
		if difference == "" {
			same++
			continue
		}
		differences = append(differences, name+": "+difference)
	}
	return differences, same, nil
}

// compareFile says in what two files differ, or "".
func compareFile(first, second string) (string, error) {
	one, err := os.Open(first)
	if errors.Is(err, os.ErrNotExist) {
		return "only the second run made it", nil
	}
	if err != nil {
		return "", err
	}
	defer one.Close()
	two, err := os.Open(second)
	if errors.Is(err, os.ErrNotExist) {
		return "only the first run made it", nil
	}
	if err != nil {
		return "", err
	}
	defer two.Close()
	offset, err := firstDifference(bufio.NewReader(one), bufio.NewReader(two))
	if err != nil || offset < 0 {
		return "", err
	}
	oneInfo, oneErr := one.Stat()
	twoInfo, twoErr := two.Stat()
	if err := errors.Join(oneErr, twoErr); err != nil {
		return "", err
	}
	return fmt.Sprintf("they differ from byte %d on; %d bytes in the first run, %d in the second", offset, oneInfo.Size(), twoInfo.Size()), nil
}

// firstDifference is where two streams begin to differ, or -1.
func firstDifference(one, two *bufio.Reader) (int64, error) {
	for offset := int64(0); ; offset++ {
		a, errA := one.ReadByte()
		b, errB := two.ReadByte()
		endA, endB := errors.Is(errA, io.EOF), errors.Is(errB, io.EOF)
		switch {
		case errA != nil && !endA:
			return 0, errA
		case errB != nil && !endB:
			return 0, errB
		case endA && endB:
			return -1, nil
		case endA || endB || a != b:
			return offset, nil
		}
	}
}
