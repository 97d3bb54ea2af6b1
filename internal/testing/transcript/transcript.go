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

var (
	comment = regexp.MustCompile(`\s+#.*$`)
	quoted  = regexp.MustCompile(`(?s)'[^']*'|"(?:\\.|[^"\\])*"`)
	opening = regexp.MustCompile(`(?:^|\s)(?:for|while)\s`)
	closing = regexp.MustCompile(`(?m)(?:^|\s)done(?:\s|$)`)
)

// Steps are the commands of a page in their order. A block of output belongs to the last command of the block of commands before it, if no
// heading is between them.
func Steps(page string) []Step {
	var r reader
	for i, line := range strings.Split(page, "\n") {
		r.read(i+1, line)
	}
	return r.steps
}

// reader is what was read of a page so far.
type reader struct {
	steps []Step
	// inside a block of a language, of which these are the lines.
	inside   bool
	language string
	block    []string
	// follows reports whether a block of output would belong to the last step.
	follows bool
	// begun is a command that goes on in the next line, and begunAt the line in which it begins.
	begun   string
	begunAt int
}

func (r *reader) read(number int, line string) {
	trimmed := strings.TrimSpace(line)
	switch {
	case r.inside && trimmed == fence:
		r.end()
	case r.inside && r.language == outputLanguage:
		r.block = append(r.block, line)
	case r.inside:
		r.command(number, line)
	case strings.HasPrefix(trimmed, fence):
		r.inside, r.language, r.block = true, strings.TrimPrefix(trimmed, fence), nil
	case strings.HasPrefix(line, "#"):
		r.follows = false
	}
}

// end ends a block.
func (r *reader) end() {
	if r.begun != "" { // shown as it is: what takes it as a command fails
		r.steps = append(r.steps, Step{Line: r.begunAt, Command: r.begun})
	}
	r.inside, r.begun = false, ""
	if r.language == outputLanguage && r.follows {
		r.steps[len(r.steps)-1].Output = strings.Join(r.block, "\n") + "\n"
		r.follows = false
	}
}

// command takes a line of a block as a command, if it is one.
func (r *reader) command(number int, line string) {
	command := strings.TrimSpace(comment.ReplaceAllString(line, ""))
	if (r.language != "" && r.language != "sh") || command == "" || strings.HasPrefix(command, "#") {
		return
	}
	if r.begun == "" {
		r.begunAt = number
	} else {
		command = r.begun + "\n" + command
	}
	if r.begun = command; unfinished(command) {
		return
	}
	r.steps, r.follows, r.begun = append(r.steps, Step{Line: r.begunAt, Command: command}), true, ""
}

// unfinished reports whether a shell would ask for another line.
func unfinished(command string) bool {
	bare := quoted.ReplaceAllString(command, "")
	for _, end := range []string{"\\", "|", "&&"} {
		if strings.HasSuffix(bare, end) {
			return true
		}
	}
	return strings.ContainsAny(bare, `'"`) || len(opening.FindAllString(bare+"\n", -1)) > len(closing.FindAllString(bare, -1))
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
