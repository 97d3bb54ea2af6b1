// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is the product with one rule broken: in file, which is named from the top of the repository, old stands exactly once and
// becomes new. by are the packages whose tests have to notice, in the order in which they are tried, each
// with flags where it needs some.
type mutant struct {
	rule, file, old, new string
	by                   []string
	// histories bounds what the simulation plays, where it is among them; zero is simulationHistories.
	histories int
}

// all are the mutants, in the order of the documentation.
func all() []mutant {
	return slices.Concat(decisionMutants, sharedMutants, ownershipMutants, edgeMutants, admissionMutants, byHandMutants, livenessMutants, allocationMutants, nodeMutants, queryMutants, plantedMutants)
}

// selected are those whose rule has the text; all for an empty one.
func selected(text string) []mutant {
	return slices.DeleteFunc(all(), func(m mutant) bool { return !strings.Contains(m.rule, text) })
}

// text gives the file's content as it is and as the mutant has it.
func (m mutant) text(root string) (before, after []byte, err error) {
	before, err = os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, nil, err
	}
	if found := strings.Count(string(before), m.old); found != 1 {
		return nil, nil, fmt.Errorf("the mutant %q no longer applies: %s has its text %d times, expected once:\n%s", m.rule, m.file, found, m.old)
	}
	return before, []byte(strings.Replace(string(before), m.old, m.new, 1)), nil
}

// apply breaks the tree in root. restore mends it.
func (m mutant) apply(root string) (restore func() error, err error) {
	before, after, err := m.text(root)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, m.file)
	return func() error { return os.WriteFile(path, before, 0o644) }, os.WriteFile(path, after, 0o644)
}

// check describes what is wrong with the catalog: a mutant that does not apply, or two for one rule.
func check(root string, mutants []mutant) error {
	var problems []error
	rules := map[string]bool{}
	for _, m := range mutants {
		if rules[m.rule] {
			problems = append(problems, fmt.Errorf("two mutants break the rule %q", m.rule))
		}
		rules[m.rule] = true
		if len(m.by) == 0 {
			problems = append(problems, fmt.Errorf("the mutant %q names no package that has to notice", m.rule))
		}
		if _, _, err := m.text(root); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
