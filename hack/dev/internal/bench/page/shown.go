// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// columns of the table of results, the last of which is that of an older version.
var columns = []string{"What", "Against", "Target", "Measured", "Holds", "Commit", "Before"}

// shown is what the page shows of each row, by the row's name: the cells of the table but the last, that one, and the section.
type shown struct {
	cells            map[string][]string
	before, sections map[string]string
}

// read reads a page that Add wrote: figures of rows stay, wherever they were measured. It is an error if the page has another form: figures would be lost.
func read(path string) (*shown, error) {
	s := &shown{cells: map[string][]string{}, before: map[string]string{}, sections: map[string]string{}}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	text, sections, _ := strings.Cut(string(content), "\n### ")
	_, table, found := strings.Cut(text, tableLine(columns)+"\n")
	if !found {
		return nil, fmt.Errorf("%s has no table with the columns %q, so that its figures cannot be kept: restore the page, or delete it to begin anew", path, columns)
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "| "), " |"), " | ")
		if len(cells) < 2 {
			continue // what surrounds the table
		}
		name, isMeasured := nameOf(cells[0])
		last := len(columns) - 1
		if len(cells) != len(columns) || name == "" && cells[last] != "" {
			return nil, fmt.Errorf("%s: row %q has %d cells, expected %d, and a name where an older version was measured: restore the page", path, cells[0], len(cells), len(columns))
		}
		if s.before[name] = cells[last]; isMeasured {
			s.cells[name] = cells[:last]
		}
	}
	for section := range strings.SplitSeq(sections, "\n### ") {
		name, _, _ := strings.Cut(section, "\n")
		if s.cells[name] != nil {
			s.sections[name] = "### " + strings.TrimSpace(section)
		}
	}
	return s, nil
}

// nameOf is the name of a row by its first cell: in a link where the row was measured, and in a comment otherwise.
func nameOf(cell string) (name string, isMeasured bool) {
	if _, link, isMeasured := strings.Cut(cell, "](#"); isMeasured {
		return strings.TrimSuffix(link, ")"), true
	}
	_, comment, _ := strings.Cut(cell, " <!-- ")
	return strings.TrimSuffix(comment, " -->"), false
}

func (s *shown) lines(rows []Row) []string {
	lines := []string{tableLine(columns), strings.Repeat("|---", len(columns)) + "|"}
	for _, r := range rows {
		of := s.cells[r.Name]
		if of == nil {
			if of = cells(r, nil); s.before[r.Name] != "" {
				of[0] += " <!-- " + r.Name + " -->"
			}
		}
		lines = append(lines, tableLine(append(of[:len(of):len(of)], s.before[r.Name])))
	}
	return lines
}

func (s *shown) inOrder(rows []Row) []string {
	var sections []string
	for _, r := range rows {
		if s.sections[r.Name] != "" {
			sections = append(sections, s.sections[r.Name])
		}
	}
	return sections
}

func tableLine(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
