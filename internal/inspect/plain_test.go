// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"strings"
	"testing"
)

func TestATableCannotControlTheTerminal(t *testing.T) {
	hostile := "a\x1b]0;title\x07\x1b[2Jb\u009b31mc\rd\x7f\x08é\u00a0"
	tables := []Table{
		{Heading: hostile, Lines: []string{hostile}, Columns: "NAME", Rows: [][]string{{hostile}}},
		{Heading: "h", None: hostile},
	}
	var out strings.Builder
	if err := Write(&out, tables, true); err != nil {
		t.Fatal(err)
	}
	if at := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) }); at >= 0 {
		t.Errorf("a control character is shown: %q", out.String())
	}
	if !strings.Contains(out.String(), "é\u00a0") {
		t.Errorf("got %q, want letters of every script to stay", out.String())
	}
}
