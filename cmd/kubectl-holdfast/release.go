// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/internal/removal"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/inspect/auditlog"
	"github.com/holdfast-dev/holdfast/internal/inspect/byhand"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

const releaseDescription = `Release gives ONE address back to its pool by your decision, where no evidence will ever come. It
shows the evidence first, wants a reason and the address typed once more, writes an audit log (an
event and an annotation on the record, both before anything is done), and then releases as the
manager does: by a comparison of pool, address, sandbox ID, podref and interface, so that an entry
that has changed meanwhile stays.

It refuses while a sandbox that may use the address is known to be alive, and while time alone or
the manager would release it. --force overrides that, and the audit log has what was overridden.
An address that is given back while its sandbox is alive is handed out twice: that is the failure
that Holdfast is there to prevent.

With --from-report it releases the leaks on which two reports of kubectl holdfast audit --report
agree, and a third audit at this moment too. The reports have to be delays.sandboxCreationMax apart
or more. What Holdfast itself holds for a known pod UID is never among them, and --force does not
apply. Both reports may be older than Holdfast in the cluster.

Where Holdfast is not installed it refuses: no record has what an agent has seen alive. Mode Shadow
is enough for --from-report. It queries no agent, so that a single address takes --force.

Where unsafeReleases.mode is Deny, admission refuses you like any other user. A user who may
impersonate the manager's account can have the IPAM's objects written by that account
(--as-manager); the audit log has your own name.

Needed rights: those of audit and of explain; get allnodesqueries; create events (events.k8s.io);
patch ipallocations; patch ippools; get, list, delete overlappingrangeipreservations.`

type releaseOptions struct {
	*options
	reason, pool, sandbox, confirm string
	force, dryRun, asManager       bool
	reports                        []string
}

func (o *options) newReleaseCommand() *cobra.Command {
	r := &releaseOptions{options: o}
	cmd := &cobra.Command{
		Use:   "release (ADDRESS | --from-report FIRST --from-report SECOND) --reason TEXT",
		Short: "Give an address back by hand, or the leaks that two audits agree on",
		Long:  releaseDescription,
		Example: `  # What would speak against it?
  kubectl holdfast release 192.168.2.3 --dry-run

  # The machine is scrap: no kubelet or agent will ever report its termination
  kubectl holdfast release 192.168.2.3 --as-manager --reason "INC-1432: node-b burnt down, seen by ops"

  # What leaked before Holdfast was there
  kubectl holdfast audit --report first.json
  kubectl holdfast audit --report second.json      # ten minutes later or more
  kubectl holdfast release --from-report first.json --from-report second.json --reason "CHG-77: leaks of 2025"`,
		Args:              r.args,
		ValidArgsFunction: r.complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&r.reason, "reason", "", "why, in a `sentence` that others will read: needed, unless with --dry-run")
	flags.StringVar(&r.pool, "pool", "", "`namespace/name` of the IPPool, where several have the address")
	flags.StringVar(&r.sandbox, "sandbox", "", "sandbox `ID` of the entry, or its beginning, where several have the address")
	flags.BoolVar(&r.force, "force", false, "override the objections, also that a sandbox is known to be alive")
	flags.BoolVar(&r.dryRun, "dry-run", false, "show the evidence, and change nothing")
	flags.BoolVar(&r.asManager, "as-manager", false, "write the IPAM's objects as the manager's account, where admission refuses all others; needs the right to impersonate it")
	flags.StringArrayVar(&r.reports, "from-report", nil, "`file` that kubectl holdfast audit --report wrote; given twice, in place of the address")
	flags.StringVar(&r.confirm, "confirm", "", "the address (with --from-report the number of entries) that would be typed at the `prompt`, for scripts")
	return cmd
}

func (r *releaseOptions) args(_ *cobra.Command, args []string) error {
	switch {
	case len(r.reports) > 0 && (len(r.reports) != 2 || len(args) > 0):
		return fmt.Errorf("--from-report was given %d times, with %d arguments: expected two reports, and no address", len(r.reports), len(args))
	case len(r.reports) > 0 && (r.force || r.pool != "" || r.sandbox != ""):
		return errors.New("--from-report acts only on what both reports agree on: --force, --pool and --sandbox do not apply")
	case len(r.reports) == 0 && len(args) != 1:
		return fmt.Errorf("%d arguments: expected one address", len(args))
	case !r.dryRun:
		return checkReason(r.reason)
	}
	return nil
}

// minReason keeps a reason from being a keystroke.
const minReason = 10

func checkReason(reason string) error {
	if len(strings.TrimSpace(reason)) < minReason {
		return refuse("--reason is %q: expected a sentence of %d characters or more, that others will understand", reason, minReason)
	}
	return nil
}

func (r *releaseOptions) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(r.reports) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return r.completeAddresses(cmd, args, typed)
}

func (r *releaseOptions) run(ctx context.Context, args []string) error {
	c, err := r.open()
	if err != nil {
		return err
	}
	r.output = "wide"
	if len(r.reports) > 0 {
		return r.fromReports(ctx, c, r.reports)
	}
	ip, err := parseAddress(args[0])
	if err != nil {
		return err
	}
	facts, backend, err := c.ByHand(ctx, ip, r.pool, r.sandbox)
	if _, notServed := errors.AsType[*inspect.NotServedError](err); notServed {
		return refuseWithout()
	}
	if err != nil {
		return err
	}
	return r.one(ctx, c, ip, facts, backend)
}

// refuseWithout refuses where Holdfast is not installed.
func refuseWithout() error {
	return refuse(inspect.NoHoldfast + ": no record says which entry is held for a live sandbox. Nothing was changed; install it first, in mode Shadow if nothing else is wanted of it")
}

// one releases a single entry.
func (r *releaseOptions) one(ctx context.Context, c *collect.Cluster, ip netip.Addr, facts *byhand.Facts, backend ipam.Auditable) error {
	found := byhand.Judge(facts, r.now())
	if err := r.print(found); err != nil {
		return err
	}
	fmt.Fprintln(r.Out)
	if r.dryRun {
		fmt.Fprintln(r.Out, "A dry run: nothing was changed.")
		return nil
	}
	overridden, err := r.overridden(found)
	if err != nil {
		return err
	}
	asked, err := r.consent(ctx, found.Entry.Address, "the address")
	if err != nil {
		return err
	}
	if asked {
		if err := r.lookAgain(ctx, c, ip, found); err != nil {
			return err
		}
	}
	about := backend.PoolReference(found.Entry.Pool)
	if facts.Owner != nil && facts.Owner.Record != nil {
		about = auditlog.RecordReference(facts.Owner.Record)
	}
	err = r.release(ctx, c, backend, &found.Entry, found.Record, about, overridden)
	if err == nil && facts.Owner != nil && facts.Owner.Pod.IsKnown() {
		fmt.Fprintf(r.Out, "Its pod is still there, and held for its own end: kubectl holdfast explain pod/%s -n %s\n", facts.Owner.Ref.Name, facts.Owner.Ref.Namespace)
	}
	return err
}

// lookAgain refuses where there are objections by now that were not shown: a prompt may stand for hours.
func (r *releaseOptions) lookAgain(ctx context.Context, c *collect.Cluster, ip netip.Addr, shown *byhand.Case) error {
	facts, _, err := c.ByHand(ctx, ip, r.pool, r.sandbox)
	if err != nil {
		return err
	}
	if news := shown.News(byhand.Judge(facts, r.now()), r.force); len(news) > 0 {
		return refuse("since the prompt there are new objections: %s. Nothing was changed; run it again", strings.Join(news, "; "))
	}
	return nil
}

// overridden are the objections that --force overrides; without it they are a refusal.
func (r *releaseOptions) overridden(found *byhand.Case) ([]string, error) {
	switch {
	case r.force:
	case found.Alive():
		return nil, refuse("a sandbox that may use %s is known to live: releasing it hands the address out twice. Nothing was changed; see above, and --force", found.Entry.Address)
	case found.Attention():
		return nil, refuse("the manager still waits for evidence, or releases it by itself: see above. Nothing was changed; --force does it all the same")
	}
	var what []string
	for _, o := range found.Objections {
		what = append(what, o.What)
	}
	return what, nil
}

// release writes the audit log, releases one entry, and shows the outcome.
func (r *releaseOptions) release(ctx context.Context, c *collect.Cluster, backend ipam.Auditable, e *audit.Entry, record string,
	about *corev1.ObjectReference, overridden []string) error {
	key, err := e.Key()
	if err != nil {
		return fmt.Errorf("reading the entry's address: %w", err)
	}
	w := r.auditLog(c)
	user, err := w.WhoAmI(ctx)
	if err != nil {
		return err
	}
	if r.asManager {
		if backend, err = c.AsManager(ctx); err != nil {
			return err
		}
	}
	logged := auditlog.Of(e, user, strings.TrimSpace(r.reason), overridden, r.now())
	if err := w.Begin(ctx, logged, about, record); err != nil {
		return fmt.Errorf("%w; without it nothing is released, and nothing was", err)
	}
	results := backend.Release(ctx, []ipam.Request{{Key: key, Record: byhand.RequestRecord(e, record)}})
	failure := results[0].Err
	if err := w.End(ctx, logged, about, record, failure); err != nil {
		fmt.Fprintln(r.ErrOut, "warning:", err)
	}
	if failure != nil {
		return releaseFailure(failure)
	}
	fmt.Fprintf(r.Out, "Released %s of pool %s (sandbox %s). The audit log is in the events (%s, %s)", e.Address, e.Pool, e.SandboxID, v1alpha1.ReasonReleaseByHand, v1alpha1.ReasonReleasedByHand)
	if record != "" {
		fmt.Fprintf(r.Out, " and in annotation %s of record %s", v1alpha1.ReleasedByHandAnnotation, record)
	}
	fmt.Fprintln(r.Out, ".")
	return nil
}

// releaseFailure separates a refusal, after which the entry stands, from a failure after which the command can be run again.
func releaseFailure(failure error) error {
	switch {
	case errors.Is(failure, ipam.ErrChanged):
		return refuse("%v", failure)
	case apierrors.IsForbidden(failure):
		return refuse("%v; nothing was released, though the entry may have the tombstone of its record by now, which keeps it from every pod. "+
			"Where admission refuses it (unsafeReleases.mode: Deny), --as-manager is for users who may impersonate the manager", failure)
	}
	return fmt.Errorf("%w; run it again: it goes on where it was", failure)
}

// consent wants a text typed once more, or with --confirm. It reports whether it waited for a person.
func (r *releaseOptions) consent(ctx context.Context, text, what string) (asked bool, err error) {
	if r.confirm != "" {
		if r.confirm != text {
			return false, refuse("--confirm is %q: expected %s, %s. Nothing was changed", r.confirm, what, text)
		}
		return false, nil
	}
	typed, err := removal.Ask(ctx, r.In, r.ErrOut, fmt.Sprintf("What is released can be handed out at once. To go on, type %s (%s): ", what, text))
	if err == nil && typed != text {
		return true, refuse("nothing was changed: it goes on only after %s was typed, or with --confirm %s", what, text)
	}
	return true, err
}
