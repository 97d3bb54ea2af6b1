// SPDX-License-Identifier: Apache-2.0

// Command dashboard-picture records what processes expose as metrics and draws the dashboard from it.
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/promql/picture"
	"github.com/holdfast-dev/holdfast/hack/promql/recording"
)

// askTimeout ends a scrape that gets no answer.
const askTimeout = 5 * time.Second

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

type recordFlags struct {
	dashboard, out string
	interval, last time.Duration
}

func newRecordCommand() *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{
		Use:   "record JOB=URL...",
		Short: "Scrape processes again and again, until it is interrupted",
		Long: `Record scrapes each URL every few seconds and writes down, compressed, the series that the
dashboard asks for. The job is the label that the dashboard knows the process by:
holdfast-metrics for the manager. It ends when it is interrupted, or after --for.`,
		Example: `  dashboard-picture record --out bin/dashboard.prom.gz holdfast-metrics=http://127.0.0.1:8443/metrics`,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args, cmd.ErrOrStderr()) },
	}
	cmd.Flags().StringVar(&f.dashboard, "dashboard", "config/prometheus/dashboard.json", "`file` with the dashboard")
	cmd.Flags().StringVar(&f.out, "out", "", "`file` for the recording")
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "time between two scrapes")
	cmd.Flags().DurationVar(&f.last, "for", 0, "time after which it ends; 0 is never")
	return required(cmd, "out")
}

func (f *recordFlags) run(ctx context.Context, args []string, log io.Writer) (err error) {
	wanted, err := f.wanted()
	if err != nil {
		return err
	}
	recorder := recording.Recorder{Client: &http.Client{Timeout: askTimeout}, Keep: func(name string) bool { return wanted[name] }}
	for _, arg := range args {
		target, err := recording.ParseTarget(arg)
		if err != nil {
			return err
		}
		recorder.Targets = append(recorder.Targets, target)
	}
	file, err := os.Create(f.out)
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(file)
	defer func() { err = errors.Join(err, packed.Close(), file.Close()) }()
	recorder.Out = packed
	if f.last > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.last)
		defer cancel()
	}
	return f.scrape(ctx, &recorder, log)
}

// wanted are the series that the dashboard asks for.
func (f *recordFlags) wanted() (map[string]bool, error) {
	dashboard, err := readDashboard(f.dashboard)
	if err != nil {
		return nil, err
	}
	return dashboard.Metrics()
}

func (f *recordFlags) scrape(ctx context.Context, recorder *recording.Recorder, log io.Writer) error {
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for scrapes := 1; ; scrapes++ {
		series, err := recorder.Scrape(ctx, time.Now())
		if err != nil {
			return err
		}
		if scrapes%10 == 1 {
			fmt.Fprintf(log, "scrape %d: %d series\n", scrapes, series)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func newRenderCommand() *cobra.Command {
	var dashboard, from, out string
	cmd := &cobra.Command{
		Use:     "render",
		Short:   "Draw the dashboard from a recording",
		Long:    `Render evaluates each panel's expressions with Prometheus' own engine over a recording, and draws the panels as a PNG.`,
		Example: `  dashboard-picture render --from bin/dashboard.prom.gz --out bin/dashboard.png`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return render(cmd.Context(), dashboard, from, out) },
	}
	cmd.Flags().StringVar(&dashboard, "dashboard", "config/prometheus/dashboard.json", "`file` with the dashboard")
	cmd.Flags().StringVar(&from, "from", "", "`file` with the recording")
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
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	folder, err := os.MkdirTemp("", "dashboard-picture")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	data, span, err := recording.Load(ctx, unpacked, folder)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	target, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	return picture.Draw(ctx, dashboard, data, span, target)
}
