// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/cmd/internal/removal"
)

// consent wants a word typed once more. Where nobody answers there is none.
func (r *releaseOptions) consent(ctx context.Context, word, what string) error {
	if r.confirm != "" {
		if r.confirm != word {
			return refuse("--confirm is %q: expected %s, %s. Nothing was changed", r.confirm, what, word)
		}
		return nil
	}
	answer, err := removal.Ask(ctx, r.In, r.ErrOut, fmt.Sprintf("What is released can be handed out at once. To go on, type %s (%s): ", what, word))
	if err != nil {
		return err
	}
	if answer != word {
		return refuse("nothing was changed: it goes on only after %s was typed, or with --confirm %s", what, word)
	}
	return nil
}
