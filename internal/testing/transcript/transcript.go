// SPDX-License-Identifier: Apache-2.0

// Package transcript reads from a page of the documentation the commands that it shows, with what it says that they print, so that tests
// run them and compare.
package transcript

import (
	"regexp"
	"strings"
)

// Step is a command of a page.
type Step struct {
	// Line is where it stands, from 1.
	Line    int
	Command string
	// Output is what the page shows below it; empty where it shows nothing. A page may leave out the end.
	Output string
}

const (
	fence = "```"
	// outputLanguage is the language of a code block with output. A block without a language, or of sh, has commands.
	outputLanguage = "text"
)

var comment = regexp.MustCompile(`\s+#.*$`)

// Steps are the commands of a page in their order. A block of output belongs to the last command of the block of commands before it, if no
// heading is between them.
func Steps(page string) []Step {
	var steps []Step
	var block []string
	inside, language, follows := false, "", false
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case inside && trimmed == fence:
			if language == outputLanguage && follows {
				steps[len(steps)-1].Output = strings.Join(block, "\n") + "\n"
				follows = false
			}
			inside = false
		case inside && language == outputLanguage:
			block = append(block, line)
		case inside && (language == "" || language == "sh"):
			if command := strings.TrimSpace(comment.ReplaceAllString(line, "")); command != "" && !strings.HasPrefix(command, "#") {
				steps, follows = append(steps, Step{Line: i + 1, Command: command}), true
			}
		case strings.HasPrefix(trimmed, fence):
			inside, language, block = true, strings.TrimPrefix(trimmed, fence), nil
		case strings.HasPrefix(line, "#"):
			follows = false
		}
	}
	return steps
}

var variable = []struct {
	form *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "SANDBOX"},
	{regexp.MustCompile(`\b[0-9a-f]{13}\b`), "SANDBOX"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b\d+(m\d+)?(ms|s|m)\b`), "AGE"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

// Normal is an output without what differs from run to run: UIDs, IDs of sandboxes, times, ages, and the width of columns.
func Normal(output string) string {
	for _, v := range variable {
		output = v.form.ReplaceAllString(output, v.word)
	}
	return output
}
