// SPDX-License-Identifier: Apache-2.0

// Package removal is the command line of an uninstallation, which the manager and the plugin both have.
package removal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

const (
	// defaultQPS frees a thousand pods in 20 s and is a small part of what an API server serves.
	defaultQPS = 50
	// defaultTimeout frees some 150,000 pods at the default rate.
	defaultTimeout = 90 * time.Minute
)

// Flags are those of an uninstallation. The caller sets the namespace.
type Flags struct {
	uninstall.Options
	yes bool
	qps float32
}

// Add adds the flags.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.DryRun, "dry-run", false, "only report what would be done")
	flags.BoolVar(&f.KeepCRDs, "keep-crds", false, "keep the CustomResourceDefinitions, and with them every IPAllocation and NodeResourcePolicy")
	flags.BoolVar(&f.yes, "yes", false, "do not ask for consent")
	flags.Float32Var(&f.qps, "qps", defaultQPS, "most requests a second")
	flags.DurationVar(&f.PassInterval, "pass-interval", uninstall.DefaultPassInterval, "`duration` between the two reads of all pods that prove it")
	flags.DurationVar(&f.StopTimeout, "stop-timeout", uninstall.DefaultStopTimeout, "`duration` that the manager's pods get to stop; then its account loses its rights")
	flags.DurationVar(&f.Timeout, "timeout", defaultTimeout, "`duration` after which it gives up; 0 for never")
	flags.StringVar(&f.HeldFile, "held-file", "", "`file` for the list of the entries that stay in the IPAM; one with content is not written over")
}

// Validate checks the flags; that of the namespace has this name. The error names every mistake.
func (f *Flags) Validate(namespace string) error {
	var mistakes []error
	if f.Namespace == "" {
		mistakes = append(mistakes, fmt.Errorf("--%s is empty: expected the manager's", namespace))
	}
	if f.qps <= 0 {
		mistakes = append(mistakes, fmt.Errorf("--qps is %g: expected more than 0", f.qps))
	}
	for name, d := range map[string]time.Duration{"pass-interval": f.PassInterval, "stop-timeout": f.StopTimeout} {
		if d <= 0 {
			mistakes = append(mistakes, fmt.Errorf("--%s is %s: expected a positive duration", name, d))
		}
	}
	if f.Timeout < 0 {
		mistakes = append(mistakes, fmt.Errorf("--timeout is %s: expected a positive duration, or 0 for never", f.Timeout))
	}
	return errors.Join(mistakes...)
}

// Run uninstalls after consent.
func (f *Flags) Run(ctx context.Context, restConfig *rest.Config, in io.Reader, out, errOut io.Writer) (err error) {
	if f.Client, err = newClient(restConfig, f.qps); err != nil {
		return err
	}
	fmt.Fprintf(out, "Uninstalling Holdfast (namespace %s) from the cluster at %s\n", f.Namespace, restConfig.Host)
	if err := f.consent(ctx, in, errOut); err != nil {
		return err
	}
	f.Entries = func(ctx context.Context) (ipam.Snapshot, error) { return whereabouts.ReadAll(ctx, f.Client) }
	f.Out, f.Progress = out, errOut
	return uninstall.Run(ctx, f.Options)
}

// newClient is uncached; one rate limit is for all its requests.
func newClient(restConfig *rest.Config, qps float32) (client.Client, error) {
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

// ErrNoConsent says that nothing was changed.
var ErrNoConsent = errors.New("nothing was changed: it continues only after the answer yes, or with --yes")

func (f *Flags) consent(ctx context.Context, in io.Reader, out io.Writer) error {
	if f.yes || f.DryRun {
		return nil
	}
	answer, err := Ask(ctx, in, out, "Pods that are held will be deleted, and Holdfast will not release their addresses. Continue? (yes/no) ")
	if err == nil && answer != "yes" {
		return ErrNoConsent
	}
	return err
}

// Ask asks at the terminal; without one the answer is empty. A time-out or a signal ends it.
func Ask(ctx context.Context, in io.Reader, out io.Writer, question string) (string, error) {
	if file, isFile := in.(*os.File); isFile {
		info, err := file.Stat()
		if isTerminal := err == nil && info.Mode()&os.ModeCharDevice != 0; !isTerminal {
			return "", nil
		}
	}
	fmt.Fprint(out, question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // without a line the answer is empty
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
