// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// uninstallation is one run.
type uninstallation struct {
	Options
	// step is what is being done, for errors: "stopping the manager".
	step string
	// proven: two passes have found no finalizer.
	proven bool
	// living are the pods that were not being deleted in the last pass, by "namespace/name".
	living map[string]types.UID
	// held are the entries that stay.
	held []Held
	// sparedNamespaces stay because they contain objects of others.
	sparedNamespaces []string
	// isWaitedFor: pods of a DaemonSet start only once they have read with waitRole.
	isWaitedFor bool
	// progressed is the time of the last line of progress.
	progressed time.Time
}

type step struct {
	title string // as a heading
	doing string // as the end of a sentence
	run   func(context.Context) error
}

// Run uninstalls. It returns nil when it is proven that no pod has the finalizer, and everything else is deleted (with LeaveObjects: every protector
// and webhook); after a dry run, when everything could be read. A *TimeoutError and ErrStopped mean that it was interrupted. It changes nothing if
// something has to be done before: the error says what.
func Run(ctx context.Context, o Options) error {
	u := &uninstallation{Options: o.withDefaults()}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, errTimedOut)
		defer cancel()
	}
	steps := []step{
		{"Checking what an uninstallation would break", checking, u.check},
		{"Stopping the manager", "stopping the manager", u.stop},
		{"Removing what protects pods, and every webhook", "removing what protects pods", u.removeProtectors},
		{"Removing the finalizer from every pod", "removing the finalizer from every pod", u.sweep},
		{"Listing the addresses that stay held", "listing the addresses that stay held", u.listHeld},
	}
	if !u.LeaveObjects {
		steps = append(steps,
			step{"Removing policies, records and roles", "removing policies, records and roles", u.removeRest},
			step{"Removing the namespace", "removing the namespace", u.removeNamespace},
			step{"Looking for what is left", "looking for what is left", u.verify})
	}
	for i, s := range steps {
		u.step = s.doing
		fmt.Fprintf(u.Out, "%d/%d %s\n", i+1, len(steps), s.title)
		if err := s.run(ctx); err != nil {
			return u.ended(ctx, err)
		}
	}
	u.conclude()
	return nil
}

// checking is the step that changes nothing: its failure says nothing of pods.
const checking = "checking what it would break"

// beforeDeadline is in the error of golang.org/x/time/rate for a request that could not start in time; it exports no error value.
const beforeDeadline = "would exceed context deadline"

// ended is the error of a run: a time-out, a signal or a failure.
func (u *uninstallation) ended(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errTimedOut), u.Timeout > 0 && strings.Contains(err.Error(), beforeDeadline):
		return &TimeoutError{After: u.Timeout, Step: u.step, Proven: u.proven}
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w; %s", u.step, ErrStopped, proof(u.proven))
	case u.step == checking:
		return fmt.Errorf("%s: %w", u.step, err)
	}
	return fmt.Errorf("%s: %w; %s", u.step, err, proof(u.proven))
}

func (u *uninstallation) conclude() {
	if u.DryRun {
		fmt.Fprintln(u.Out, "A dry run: nothing was changed, and nothing is proven.")
		return
	}
	done := "Holdfast is uninstalled"
	if u.LeaveObjects {
		done = "Holdfast is stopped, and its other objects are left to the tool that applied them"
	}
	fmt.Fprintf(u.Out, "%s. No pod has its finalizer: two reads of all pods, %s apart, found none.\n", done, u.PassInterval)
	stay := slices.DeleteFunc(slices.Clone(u.held), isHandedOn)
	if len(stay) > 0 {
		fmt.Fprintf(u.Out, "%s in an IPAM without a pod: see the list above.\n", count(len(stay), "entry stays", "entries stay"))
	}
	if handed := len(u.held) - len(stay); handed > 0 {
		fmt.Fprintf(u.Out, "%s held for a sandbox of which no end was seen, and a later pod has it now: see the list above, and look for that sandbox first.\n",
			count(handed, "address was", "addresses were"))
	}
}

// print prints a line of a step.
func (u *uninstallation) print(format string, args ...any) {
	fmt.Fprintf(u.Out, "    "+format+"\n", args...)
}

// progressInterval is the least time between two lines of progress.
const progressInterval = 2 * time.Second

// progress prints how far a longer step is.
func (u *uninstallation) progress(format string, args ...any) {
	if time.Since(u.progressed) >= progressInterval {
		u.progressed = time.Now()
		fmt.Fprintf(u.Progress, "    … "+format+"\n", args...)
	}
}

// rest waits; false when the context ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
