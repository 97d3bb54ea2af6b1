// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

const (
	// defaultUninstallQPS frees a thousand pods in 20 s and is a small part of what an API server answers.
	defaultUninstallQPS = 50
	// defaultUninstallTimeout frees some 150,000 pods at the default rate.
	defaultUninstallTimeout = 90 * time.Minute
)

type uninstallOptions struct {
	*options
	uninstall.Options
	yes bool
	qps float32
}

func (o *options) newUninstallCommand() *cobra.Command {
	u := &uninstallOptions{options: o}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take Holdfast out of the cluster, and prove that no pod is held any more",
		Long: `Uninstall stops the manager; removes whatever stamps pods, and every webhook; reads all pods
and takes the finalizer holdfast.dev/ip-allocation off (no other one, and only from the pod of
that UID) until two reads, --pass-interval apart, found none; lists the entries that stay in the
IPAM with no pod behind them; and removes policies, records, CustomResourceDefinitions, roles,
certificates and the namespace. It needs no manager that is alive, can be stopped anywhere, and
run again. It does what "manager uninstall" does.

It releases no address. A pod that was held because its node is silent may still run there with
its address, and nobody waits for it any more.

It wants an administrator's rights, and the answer yes, or --yes.`,
		Example: `  # See what would be done
  kubectl holdfast uninstall --dry-run

  # Do it, and keep the list of the entries that stay in the IPAM
  kubectl holdfast uninstall --held-file held.txt

  # In a script, at most ten minutes
  kubectl holdfast uninstall --yes --timeout 10m`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return u.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&u.DryRun, "dry-run", false, "only say what would be done")
	flags.BoolVar(&u.KeepCRDs, "keep-crds", false, "keep the CustomResourceDefinitions, and with them every IPAllocation and NodeResourcePolicy")
	flags.BoolVar(&u.yes, "yes", false, "do not ask for consent")
	flags.Float32Var(&u.qps, "qps", defaultUninstallQPS, "most requests a second")
	flags.DurationVar(&u.PassInterval, "pass-interval", uninstall.DefaultPassInterval, "`duration` between the two reads of all pods that prove it")
	flags.DurationVar(&u.StopTimeout, "stop-timeout", uninstall.DefaultStopTimeout, "`duration` that the manager's pods get to stop; then its account loses its rights")
	flags.DurationVar(&u.Timeout, "timeout", defaultUninstallTimeout, "`duration` after which it gives up; 0 for never")
	flags.StringVar(&u.HeldFile, "held-file", "", "`file` for the list of the entries that stay in the IPAM; one with content is not written over")
	return cmd
}

func (u *uninstallOptions) run(ctx context.Context) error {
	if err := u.validate(); err != nil {
		return err
	}
	restConfig, err := u.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("finding a way to the cluster: %w; give one with --kubeconfig or --context", err)
	}
	limited := rest.AddUserAgent(rest.CopyConfig(restConfig), "holdfast-uninstall")
	limited.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(u.qps, max(1, int(u.qps)))
	limited.WarningHandler = rest.NoWarnings{}
	if u.Client, err = client.New(limited, client.Options{Scheme: collect.Scheme(theIPAM)}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	u.Namespace = u.manager
	fmt.Fprintf(u.IOStreams.Out, "Uninstalling Holdfast (namespace %s) from the cluster at %s\n", u.Namespace, restConfig.Host)
	if err := u.consent(ctx); err != nil {
		return err
	}
	u.Entries = func(ctx context.Context) (ipam.Snapshot, error) { return whereabouts.ReadAll(ctx, u.Client) }
	u.Options.Out, u.Progress = u.IOStreams.Out, u.ErrOut
	return uninstall.Run(ctx, u.Options)
}

func (u *uninstallOptions) consent(ctx context.Context) error {
	if u.yes || u.DryRun {
		return nil
	}
	answer, err := ask(ctx, u.In, u.ErrOut, "Pods that are held go, and their addresses are no longer watched over. Go on? (yes/no) ")
	if err != nil {
		return err
	}
	if answer != "yes" {
		return refuse("nothing was changed: it goes on only after the answer yes, or with --yes")
	}
	return nil
}

// validate checks the flags. The error names every mistake.
func (u *uninstallOptions) validate() error {
	var mistakes []error
	if u.manager == "" {
		mistakes = append(mistakes, errors.New("--manager-namespace is empty: expected the manager's"))
	}
	if u.qps <= 0 {
		mistakes = append(mistakes, fmt.Errorf("--qps is %g: expected more than 0", u.qps))
	}
	if u.PassInterval <= 0 {
		mistakes = append(mistakes, fmt.Errorf("--pass-interval is %s: expected a positive duration", u.PassInterval))
	}
	if u.StopTimeout <= 0 {
		mistakes = append(mistakes, fmt.Errorf("--stop-timeout is %s: expected a positive duration", u.StopTimeout))
	}
	if u.Timeout < 0 {
		mistakes = append(mistakes, fmt.Errorf("--timeout is %s: expected a positive duration, or 0 for never", u.Timeout))
	}
	return errors.Join(mistakes...)
}
