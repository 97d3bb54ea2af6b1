// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The observer and what judges its history must not even be able to read the guard's objects.
func TestNothingOfTheGuardIsCounted(t *testing.T) {
	const ours, hack = "github.com/holdfast-dev/holdfast/", "github.com/holdfast-dev/holdfast/hack/dev/"
	for _, pattern := range []string{"*.go", "../history/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("files %s: %v, error %v", pattern, files, err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range file.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				if strings.HasPrefix(path, ours) && !strings.HasPrefix(path, hack) {
					t.Errorf("%s imports %s, which is the guard's", name, path)
				}
			}
		}
	}
}
