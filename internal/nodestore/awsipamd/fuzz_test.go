// SPDX-License-Identifier: Apache-2.0

package awsipamd

import (
	"path/filepath"
	"regexp"
	"testing"
)

// fileName is a name that every file system takes, and numbered that of a further network card's checkpoint.
var (
	fileName = regexp.MustCompile(`^[0-9A-Za-z:_+-][0-9A-Za-z:._+-]{0,63}$`)
	numbered = regexp.MustCompile(`^ipam(-nic-\d+)?\.json$`)
)

// FuzzFolder: each checkpoint of the folder is read, an unreadable one is a defect, and another file says nothing.
func FuzzFolder(f *testing.F) {
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		if !fileName.MatchString(name) {
			return
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), string(content))
		readings := New(filepath.Join(dir, "ipam.json")).Read()
		if known := len(readings) == 2; known && !numbered.MatchString(name) || !known && name == "ipam.json" || len(readings) > 2 {
			t.Fatalf("file %q gives %d readings", name, len(readings)-1)
		}
		for _, r := range readings[1:] {
			if r.Store.Name != name || r.Unknown && len(r.Defects) == 0 {
				t.Errorf("file %q gives %+v", name, r)
			}
		}
	})
}
