// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheTableShowsWhatWasNotRemoved(t *testing.T) {
	f := newFixture()
	first, _ := f.Create(web)
	second, _ := f.Create(web)
	f.StartContainer(first, "c1", "main")
	f.StartContainer(second, "c2", "main")
	f.StartContainer("another machine's", "c3", "main")
	shown := func() (ids []string, exited map[string]bool) {
		sandboxes, containers := f.Table()
		exited = map[string]bool{}
		for _, s := range sandboxes {
			ids = append(ids, s.ID)
		}
		for _, c := range containers {
			exited[c.ID] = c.Exited
		}
		return ids, exited
	}
	check := func(what string, wantIDs []string, wantExited map[string]bool) {
		t.Helper()
		ids, exited := shown()
		if diff := cmp.Diff(wantIDs, ids); diff != "" {
			t.Errorf("%s: sandboxes (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(wantExited, exited); diff != "" {
			t.Errorf("%s: containers, exited or not (-want +got):\n%s", what, diff)
		}
	}
	check("two live sandboxes", []string{first, second}, map[string]bool{"c1": false, "c2": false})
	f.ExitContainer("c2")
	f.Stop(first)
	f.StartContainer(first, "c4", "late")
	check("one stopped", []string{first, second}, map[string]bool{"c1": true, "c2": true, "c4": true})
	f.Remove(first)
	f.StartContainer(first, "c5", "too late")
	check("one removed", []string{second}, map[string]bool{"c2": true})
}
