// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

// consent wants a word typed once more. Where nobody answers there is none.
func (r *releaseOptions) consent(ctx context.Context, word, what string) error {
	if r.confirm != "" {
		if r.confirm != word {
			return refuse("--confirm is %q: expected %s, %s. Nothing was changed", r.confirm, what, word)
		}
		return nil
	}
	answer, err := ask(ctx, r.In, r.ErrOut, fmt.Sprintf("What is released can be handed out at once. To go on, type %s (%s): ", what, word))
	if err != nil {
		return err
	}
	if answer != word {
		return refuse("nothing was changed: it goes on only after %s was typed, or with --confirm %s", what, word)
	}
	return nil
}

// ask asks at the terminal, and gives an empty answer where there is none. A time-out or a signal ends it.
func ask(ctx context.Context, in io.Reader, out io.Writer, question string) (string, error) {
	if file, isFile := in.(*os.File); isFile {
		info, err := file.Stat()
		if isTerminal := err == nil && info.Mode()&os.ModeCharDevice != 0; !isTerminal {
			return "", nil
		}
	}
	fmt.Fprint(out, question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // no answer is none
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return "", uninstall.ErrStopped
	case text := <-answer:
		return text, nil
	}
}
