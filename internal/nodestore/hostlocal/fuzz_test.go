// SPDX-License-Identifier: Apache-2.0

package hostlocal

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
)

// fileName is a name that every file system takes.
var fileName = regexp.MustCompile(`^[0-9A-Za-z:._%-]{1,64}$`)

// FuzzFolder: a file of a network's folder is an entry or a defect, and only what is an entry, and is still the same, is ever removed.
func FuzzFolder(f *testing.F) {
	f.Fuzz(func(t *testing.T, name, content, later string) {
		if !fileName.MatchString(name) || !filepath.IsLocal(name) || name == "." || name == nodestore.HostLocalLock {
			return
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "cbr0", name)
		write(t, filepath.Join(dir, "cbr0", nodestore.HostLocalLock), "")
		write(t, path, content)
		source := New(dir, nil)
		readings := source.Read()
		if len(readings) != 2 || readings[0].Unknown {
			t.Fatalf("one network gives %+v", readings)
		}
		entries, defects := readings[0].Entries, readings[0].Defects
		if nodestore.IsHostLocalEntry(name) != (len(entries)+len(defects) == 1) {
			t.Errorf("file %q gives %d entries and %d defects", name, len(entries), len(defects))
		}
		if len(entries) == 0 {
			return
		}
		write(t, path, later)
		reason, err := source.Reclaim(context.Background(), entries[0])
		_, statErr := os.Stat(path)
		again, parseErr := nodestore.ParseHostLocal(entries[0].Store, name, []byte(later))
		if removed, same := os.IsNotExist(statErr), parseErr == nil && again == entries[0]; removed != same || removed != (reason == v1alpha1.ReasonAddressReclaimed) {
			t.Errorf("%q became %q; removed: %t, %s, %v", content, later, removed, reason, err)
		}
	})
}
