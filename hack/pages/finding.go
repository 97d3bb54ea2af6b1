// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

const (
	// leastSize is that of text in CSS pixels, drawings included.
	leastSize = 8
	// leastContrast is that of WCAG 2 for text (1.4.3, level AA).
	leastContrast = 4.5
)

// finding is what the probe reports on a page.
type finding struct {
	Errors []string
	// Window and Width are those of the window and of the page, in CSS pixels.
	Window, Width int
	Texts         int
	// Smallest is the size of the smallest text, and Contrast the least contrast of a text with what is behind it.
	Smallest, Contrast         float64
	SmallestText, ContrastText string
}

// mistakes are what keeps the page from being read.
func (f *finding) mistakes() []string {
	var all []string
	for _, e := range f.Errors {
		all = append(all, "an error on the console: "+e)
	}
	if f.Texts == 0 {
		all = append(all, "it has no text")
	}
	if f.Width > f.Window {
		all = append(all, fmt.Sprintf("it is %d px wide, and has to be moved sideways", f.Width))
	}
	if f.Smallest < leastSize {
		all = append(all, fmt.Sprintf("text of %.1f px is too small: %q", f.Smallest, f.SmallestText))
	}
	if f.Contrast < leastContrast {
		all = append(all, fmt.Sprintf("a contrast of %.1f is too little: %q", f.Contrast, f.ContrastText))
	}
	return all
}
