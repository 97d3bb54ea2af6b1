// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// citingPages name tests in the column "Shown by" of their tables, in backquotes.
var citingPages = []string{root + "/docs/track-record.md", root + "/docs/threat-model.md", root + "/docs/design.md"}

// Where the names of scenarios and specs stand, besides the files of tests.
var scenarioFolders = []string{"hack/dev/internal/demo", "test/model/world", "test/integration"}

const shownBy = "Shown by"

var citation = regexp.MustCompile("`([^`]+)`")

func TestPagesCiteTestsThatExist(t *testing.T) {
	known := testNames(t)
	for _, page := range citingPages {
		cited := 0
		for number, line := range shownByCells(read(t, page)) {
			names := citation.FindAllStringSubmatch(line, -1)
			if len(names) == 0 {
				t.Errorf("%s:%d names no test in its column %q", page, number, shownBy)
			}
			for _, name := range names {
				cited++
				if !isCited(known, name[1]) {
					t.Errorf("%s:%d cites %q, which is no test function, spec, table entry, scenario or folder", page, number, name[1])
				}
			}
		}
		if cited == 0 {
			t.Errorf("%s cites no test: its tables have no column %q", page, shownBy)
		}
	}
}

// isCited reports whether a name is one of a test, or the beginning of one with an ellipsis, or a folder.
func isCited(known sets.Set[string], name string) bool {
	if begins, cut := strings.CutSuffix(name, "…"); cut {
		return slices.ContainsFunc(known.UnsortedList(), func(n string) bool { return strings.HasPrefix(n, begins) })
	}
	folder, err := os.Stat(filepath.Join(root, name))
	return known.Has(name) || err == nil && folder.IsDir()
}

// shownByCells are the cells of that column, by the number of their line.
func shownByCells(text string) map[int]string {
	cells := map[int]string{}
	column := -1
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			column = -1
			continue
		}
		row := strings.Split(strings.Trim(line, "|"), "|")
		if column < 0 {
			for at, name := range row {
				if strings.TrimSpace(name) == shownBy {
					column = at
				}
			}
			continue
		}
		if column < len(row) && !strings.HasPrefix(strings.TrimSpace(row[column]), "---") {
			cells[i+1] = row[column]
		}
	}
	return cells
}

// testNames are the names of all test functions, and every string literal of test files and scenarios: a spec, a table entry,
// a case or a scenario is named by one.
func testNames(t *testing.T) sets.Set[string] {
	t.Helper()
	names := sets.New[string]()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || path == filepath.Join(root, "bin")):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		case strings.HasSuffix(path, "_test.go"), isScenarioFolder(folder):
			return collectNames(path, names)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func isScenarioFolder(folder string) bool {
	for _, scenarios := range scenarioFolders {
		if folder == scenarios || strings.HasPrefix(folder, scenarios+"/") {
			return true
		}
	}
	return false
}

func collectNames(path string, names sets.Set[string]) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(n.Name.Name, "Test") || strings.HasPrefix(n.Name.Name, "Fuzz") {
				names.Insert(n.Name.Name)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				names.Insert(text)
			}
		}
		return true
	})
	return nil
}
