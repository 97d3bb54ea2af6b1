// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var (
	rowInComment = regexp.MustCompile(`(?m)^//\t(\w+) `)
	rowConstant  = regexp.MustCompile(`(?m)^\t(Row\w+) +Row = "(\w+)"$`)
)

// TestDecisionTablesAreTheCodes: the table in the comment of a package, its constants and the list that it exports have the same rows in the
// same order, and the code decides by each of them.
func TestDecisionTablesAreTheCodes(t *testing.T) {
	t.Run("release", func(t *testing.T) { checkRows(t, root+"/internal/release", release.Rows) })
	t.Run("orphan", func(t *testing.T) { checkRows(t, root+"/internal/orphan", orphan.Rows) })
}

func checkRows[R ~string](t *testing.T, folder string, rows []R) {
	t.Helper()
	var listed, constants, commented []string
	for _, row := range rows {
		listed = append(listed, string(row))
	}
	for _, found := range rowInComment.FindAllStringSubmatch(read(t, folder+"/doc.go"), -1) {
		commented = append(commented, found[1])
	}
	code := codeIn(t, folder)
	for _, found := range rowConstant.FindAllStringSubmatch(read(t, folder+"/decision.go"), -1) {
		constants = append(constants, found[2])
		const declaredAndListed = 2
		if uses := len(regexp.MustCompile(`\b`+found[1]+`\b`).FindAllString(code, -1)); uses <= declaredAndListed {
			t.Errorf("no code decides by %s", found[1])
		}
	}
	if diff := cmp.Diff(constants, listed); diff != "" || len(rows) == 0 {
		t.Errorf("Rows (-constants +Rows):\n%s", diff)
	}
	if diff := cmp.Diff(constants, commented); diff != "" {
		t.Errorf("the table of the package comment (-constants +table):\n%s", diff)
	}
}

// codeIn is the code of a folder, without its tests.
func codeIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			all.WriteString(read(t, file))
		}
	}
	return all.String()
}
