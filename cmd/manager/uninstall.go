// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/internal/program"
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

const uninstallDescription = `Uninstall takes Holdfast out of a cluster, and proves that no pod is left with its finalizer.
It runs outside of the cluster, with an administrator's kubeconfig, and needs no manager that
is alive.

It stops the manager; removes whatever stamps pods, and every webhook; reads all pods and
takes the finalizer holdfast.dev/ip-allocation off (no other finalizer, and only from the pod
of that UID) until two reads, --pass-interval apart, found none; lists the entries that stay
in the IPAM with no pod behind them; and removes policies, records, CustomResourceDefinitions,
roles, certificates and the namespace. Each step says what it found. It can be stopped
anywhere, and run again.

It releases no address. A pod that was held because its node is silent may still run there
with its address, and nobody waits for it any more.

Exit codes:
  0  proven, and nothing is left (or a dry run that could read everything)
  1  wrong flags, no consent, or another error; it says whether it was proven before
  3  the time-out is over
  4  stopped by a signal`

const uninstallExample = `  # See what would be done
  manager uninstall --dry-run

  # Do it, and keep the list of the entries that stay in the IPAM
  manager uninstall --held-file held.txt

  # In a script, for another cluster, at most ten minutes
  manager uninstall --yes --timeout 10m --kubeconfig ~/.kube/other

  # Keep records and policies for a later installation
  manager uninstall --keep-crds`

type uninstallOptions struct {
	uninstall.Options
	yes        bool
	qps        float32
	kubeconfig string
}

func newUninstallCommand() *cobra.Command {
	o := &uninstallOptions{}
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Take Holdfast out of a cluster, and prove that no pod is held any more",
		Long:    uninstallDescription,
		Example: uninstallExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *uninstallOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Namespace, "namespace", uninstall.DefaultNamespace, "`namespace` of the manager")
	flags.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
	flags.BoolVar(&o.KeepCRDs, "keep-crds", false, "keep the CustomResourceDefinitions, and with them every IPAllocation and NodeResourcePolicy")
	flags.BoolVar(&o.LeaveObjects, "leave-objects", false, "stop once it is proven, and leave every other object, the definitions too, to whoever applied it (Helm)")
	flags.BoolVar(&o.yes, "yes", false, "do not ask for consent")
	flags.Float32Var(&o.qps, "qps", defaultUninstallQPS, "most requests a second")
	flags.DurationVar(&o.PassInterval, "pass-interval", uninstall.DefaultPassInterval, "`duration` between the two reads of all pods that prove it")
	flags.DurationVar(&o.StopTimeout, "stop-timeout", uninstall.DefaultStopTimeout, "`duration` that the manager's pods get to stop; then its account loses its rights")
	flags.DurationVar(&o.Timeout, "timeout", defaultUninstallTimeout, "`duration` after which it gives up; 0 for never")
	flags.StringVar(&o.HeldFile, "held-file", "", "`file` for the list of the entries that stay in the IPAM; one with content is not written over")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the way to the cluster; otherwise $KUBECONFIG, the pod's own account, or ~/.kube/config")
}

func (o *uninstallOptions) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	restConfig, err := program.RESTConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	if o.Client, err = newUninstallClient(restConfig, o.qps); err != nil {
		return err
	}
	fmt.Fprintf(out, "Uninstalling Holdfast (namespace %s) from the cluster at %s\n", o.Namespace, restConfig.Host)
	if !o.yes && !o.DryRun {
		if err := askForConsent(ctx, in, errOut); err != nil {
			return err
		}
	}
	o.Entries = func(ctx context.Context) (ipam.Snapshot, error) { return whereabouts.ReadAll(ctx, o.Client) }
	o.Out, o.Progress = out, errOut
	return uninstall.Run(ctx, o.Options)
}

// validate checks the flags. The error names every mistake.
func (o *uninstallOptions) validate() error {
	var mistakes []error
	if o.Namespace == "" {
		mistakes = append(mistakes, errors.New("--namespace is empty: expected the manager's"))
	}
	if o.qps <= 0 {
		mistakes = append(mistakes, fmt.Errorf("--qps is %g: expected more than 0", o.qps))
	}
	for name, d := range map[string]time.Duration{"pass-interval": o.PassInterval, "stop-timeout": o.StopTimeout} {
		if d <= 0 {
			mistakes = append(mistakes, fmt.Errorf("--%s is %s: expected a positive duration", name, d))
		}
	}
	if o.Timeout < 0 {
		mistakes = append(mistakes, fmt.Errorf("--timeout is %s: expected a positive duration, or 0 for never", o.Timeout))
	}
	return errors.Join(mistakes...)
}

// newUninstallClient is uncached; all its requests together keep to one rate.
func newUninstallClient(restConfig *rest.Config, qps float32) (client.Client, error) {
	limited := rest.AddUserAgent(rest.CopyConfig(restConfig), "holdfast-uninstall")
	limited.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, max(1, int(qps)))
	limited.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(whereabouts.AddToScheme(scheme))
	c, err := client.New(limited, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, nil
}

var errNoConsent = errors.New("nothing was changed: it goes on only after the answer yes, or with --yes")

// askForConsent asks at the terminal. Where nobody answers there is no consent.
func askForConsent(ctx context.Context, in io.Reader, out io.Writer) error {
	if file, isFile := in.(*os.File); isFile {
		info, err := file.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return errNoConsent
		}
	}
	fmt.Fprint(out, "Pods that are held go, and their addresses are no longer watched over. Go on? (yes/no) ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // no answer is none
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return uninstall.ErrStopped
	case text := <-answer:
		if text != "yes" {
			return errNoConsent
		}
		return nil
	}
}
