// SPDX-License-Identifier: Apache-2.0

package manifests

import "testing"

func TestParseSkipsEmptyDocumentsAndRefusesWhatIsNoYAML(t *testing.T) {
	objects, err := Parse([]byte("---\n# nothing\n---\nkind: A\n---\nkind: B\n"))
	if err != nil || len(objects) != 2 {
		t.Errorf("%d objects, error %v", len(objects), err)
	}
	if _, err := Parse([]byte("kind: [")); err == nil {
		t.Error("broken YAML is no error")
	}
}
