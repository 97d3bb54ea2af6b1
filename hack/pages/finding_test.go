// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestMistakes(t *testing.T) {
	good := finding{Window: 400, Width: 400, Texts: 3, Smallest: 11, Contrast: 7}
	for name, tc := range map[string]struct {
		change func(*finding)
		want   string
	}{
		"a page that can be read": {func(*finding) {}, ""},
		"an error":                {func(f *finding) { f.Errors = []string{"x is not defined"} }, "console: x is not defined"},
		"a page without text":     {func(f *finding) { f.Texts = 0 }, "no text"},
		"a page that is too wide": {func(f *finding) { f.Width = 401 }, "401 px wide"},
		"small text":              {func(f *finding) { f.Smallest, f.SmallestText = 5, "web-0" }, `5.0 px is too small: "web-0"`},
		"grey on grey":            {func(f *finding) { f.Contrast, f.ContrastText = 2, "now" }, `contrast of 2.0 is too little: "now"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := good
			tc.change(&f)
			if got := strings.Join(f.mistakes(), "; "); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("mistakes %q, want %q", got, tc.want)
			}
		})
	}
}
