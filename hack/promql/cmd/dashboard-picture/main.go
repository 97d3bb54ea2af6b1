// SPDX-License-Identifier: Apache-2.0

// Command dashboard-picture records what processes expose as metrics and draws the dashboard from it.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/promql/picture"
	"github.com/holdfast-dev/holdfast/hack/promql/recording"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "dashboard-picture", Short: "Record metrics, and draw the dashboard from them",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(newRecordCommand(), newRenderCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard-picture:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be stopped
	}
}

func newRecordCommand() *cobra.Command {
	var dashboard, out string
	var interval, last time.Duration
	cmd := &cobra.Command{
		Use:   "record JOB=URL...",
		Short: "Scrape processes again and again, until it is interrupted",
		Long: `Record scrapes each URL every few seconds, as Prometheus does, and keeps the series that the
dashboard asks for in a new folder. The job is the label that the dashboard knows the process by:
holdfast-metrics for the manager. It ends when it is interrupted, or after --for.`,
		Example: `  dashboard-picture record --out bin/dashboard holdfast-metrics=http://127.0.0.1:8443/metrics`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := readDashboard(dashboard)
			if err != nil {
				return err
			}
			names, err := wanted.Metrics()
			if err != nil {
				return err
			}
			targets, err := recording.ParseTargets(args)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if last > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, last)
				defer cancel()
			}
			return recording.Record(ctx, targets, slices.Sorted(maps.Keys(names)), interval, out)
		},
	}
	cmd.Flags().StringVar(&dashboard, "dashboard", "config/prometheus/dashboard.json", "`file` with the dashboard")
	cmd.Flags().StringVar(&out, "out", "", "`folder` for the recording, which must not be there yet")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two scrapes")
	cmd.Flags().DurationVar(&last, "for", 0, "time after which it ends; 0 is never")
	return required(cmd, "out")
}

func newRenderCommand() *cobra.Command {
	var dashboard, from, out string
	cmd := &cobra.Command{
		Use:     "render",
		Short:   "Draw the dashboard from a recording",
		Long:    `Render evaluates each panel's expressions with Prometheus' own engine over a recording, and draws the panels as a PNG.`,
		Example: `  dashboard-picture render --from bin/dashboard --out bin/dashboard.png`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return render(cmd.Context(), dashboard, from, out) },
	}
	cmd.Flags().StringVar(&dashboard, "dashboard", "config/prometheus/dashboard.json", "`file` with the dashboard")
	cmd.Flags().StringVar(&from, "from", "", "`folder` with the recording")
	cmd.Flags().StringVar(&out, "out", "", "`file` for the picture")
	return required(cmd, "from", "out")
}

func required(cmd *cobra.Command, flags ...string) *cobra.Command {
	for _, flag := range flags {
		if err := cmd.MarkFlagRequired(flag); err != nil {
			panic(err) // a mistake in the program
		}
	}
	return cmd
}

func readDashboard(path string) (*picture.Dashboard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return picture.Parse(text)
}

func render(ctx context.Context, dashboardFile, from, out string) (err error) {
	dashboard, err := readDashboard(dashboardFile)
	if err != nil {
		return err
	}
	data, err := recording.Open(ctx, from)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	target, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	return picture.Draw(ctx, dashboard, data, data.Span, target)
}
