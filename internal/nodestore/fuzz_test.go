// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParseHostLocal: what is accepted is what host-local itself would find again, and nothing else.
func FuzzParseHostLocal(f *testing.F) {
	f.Fuzz(func(t *testing.T, name, content string) {
		e, err := ParseHostLocal(network, name, []byte(content))
		if err != nil {
			if e != (Entry{}) {
				t.Errorf("an error with an entry: %+v", e)
			}
			return
		}
		if e.IP.String() != name {
			t.Errorf("host-local does not look for %s in a file named %q", e.IP, name)
		}
		key := e.SandboxID
		if e.Interface != "" {
			key += "\r\n" + e.Interface
		}
		if strings.TrimSpace(content) != key {
			t.Errorf("a DEL of sandbox %q and interface %q does not match %q", e.SandboxID, e.Interface, content)
		}
	})
}

// FuzzParseCheckpoint: only the known version gives entries, every one of them is whole, and nothing is lost without a defect.
func FuzzParseCheckpoint(f *testing.F) {
	f.Fuzz(func(t *testing.T, content []byte) {
		r := ParseCheckpoint(ipam, "/f", content)
		if r.Unknown != (len(r.Defects) == 1 && len(r.Entries) == 0 && !isKnown(content)) {
			t.Errorf("Unknown is %v with %d defects and %d entries", r.Unknown, len(r.Defects), len(r.Entries))
		}
		for _, e := range r.Entries {
			checkWhole(t, e)
		}
		var file struct{ Allocations []json.RawMessage }
		if !r.Unknown && json.Unmarshal(content, &file) == nil && len(file.Allocations) != len(r.Entries)+len(r.Defects) {
			t.Errorf("%d allocations became %d entries and %d defects", len(file.Allocations), len(r.Entries), len(r.Defects))
		}
	})
}

func checkWhole(t *testing.T, e Entry) {
	t.Helper()
	if checkSandboxID(e.SandboxID) != nil || checkInterface(e.Interface) != nil || !e.IP.IsValid() || e.Network == "" || e.Store != ipam {
		t.Errorf("half an entry: %+v", e)
	}
}

func isKnown(content []byte) bool {
	var file struct {
		Version     string
		Allocations *[]json.RawMessage
	}
	return json.Unmarshal(content, &file) == nil && file.Version == CheckpointVersion && file.Allocations != nil
}
