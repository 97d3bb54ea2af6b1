// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// relative is the way from a folder to a path: kustomize takes no absolute one.
func relative(t *testing.T, from, to string) string {
	t.Helper()
	to, err := filepath.EvalSymlinks(to)
	if err != nil {
		t.Fatal(err)
	}
	way, err := filepath.Rel(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return way
}

func write(t *testing.T, file string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
