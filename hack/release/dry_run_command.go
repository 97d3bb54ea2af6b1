// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/spf13/cobra"
)

// chartVariable names the published chart to the command that is run with it, as helm takes it.
const chartVariable = "HOLDFAST_CHART"

func newDryRunCommand() *cobra.Command {
	r := &request{}
	cmd := &cobra.Command{
		Use:   "dry-run [-- COMMAND...]",
		Short: "Publish a release to a registry on this machine, and use it from there",
		Long: `dry-run starts a registry on a port of the loopback, publishes the release that was made to it, reads every byte
back and publishes once more, which must change nothing. Then it runs the command, which finds the chart under
the name in the variable ` + chartVariable + `. The registry ends with the command, and nothing leaves the machine.`,
		Example: `  release dry-run --version v0.1.0 -- sh -c 'helm show chart --plain-http $` + chartVariable + `'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := r.find(cmd.Context()); err != nil {
				return err
			}
			return r.dryRun(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	r.add(cmd.Flags())
	return cmd
}

func (r *request) dryRun(ctx context.Context, out io.Writer, command []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting a registry: %w", err)
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = r.use(ctx, out, listener.Addr().String()+"/holdfast-dev", command)
	if closing := errors.Join(server.Close(), <-served); !errors.Is(closing, http.ErrServerClosed) {
		err = errors.Join(err, closing)
	}
	return err
}

// use publishes to the registry twice, and runs the command with what is there.
func (r *request) use(ctx context.Context, out io.Writer, at string, command []string) error {
	for range 2 {
		if err := r.publish(ctx, out, at); err != nil {
			return err
		}
	}
	if len(command) == 0 {
		return nil
	}
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Dir, run.Stdout, run.Stderr = r.root, out, os.Stderr
	run.Env = append(os.Environ(), chartVariable+"="+r.release(out, at).ChartReference())
	if err := run.Run(); err != nil {
		return fmt.Errorf("using the published release: %w", err)
	}
	return nil
}
