// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
)

// onlyMissing selects the rows without a file.
const onlyMissing = "missing"

type benchFlags struct {
	root, base           string
	only                 []string
	repeats              int
	quick, profile, list bool
}

func newBenchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what Holdfast costs",
		Long: `Bench measures what Holdfast costs on control planes of its own, one for each experiment: a real API
server and etcd, the real manager under its own account with its own manifests. The arms of a
comparison take turns in one run.

Each row is written to bin/bench/NAME.json as soon as it is measured, and into the page:
docs/performance.md, with its plots in docs/pictures/performance. The page keeps all other rows as
they are. A quick run writes both below bin/bench/quick, and a run of another commit its rows below
bin/bench/before: the page shows them in a column of their own.`,
		Example: `  holdfast-dev bench
  holdfast-dev bench --only creation-saturated,webhook-cpu
  holdfast-dev bench --only missing
  holdfast-dev bench --only watched-writes --repeats 40
  holdfast-dev bench --quick
  holdfast-dev bench --profile --only webhook-cpu,finalizers
  holdfast-dev bench --base e0e9cf8 --only creation-saturated`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				for _, r := range bench.Rows() {
					fmt.Fprintf(cmd.OutOrStdout(), "%-22s %s\n", r.Name, r.Title)
				}
				return nil
			}
			if f.repeats < 0 || f.quick && f.repeats > 0 {
				return fmt.Errorf("--repeats %d: expected a positive number, and no --quick, which makes one repeat", f.repeats)
			}
			return f.run(cmd)
		},
	}
	cmd.Flags().StringVar(&f.root, "root", "", "`folder` of the repository; default: the one that the working directory is in")
	cmd.Flags().StringVar(&f.base, "base", "", "measure the manager of this `commit`, which is built in a worktree of its own")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "`names` of the rows to measure, or "+onlyMissing+" for those that have no file; the files of the other rows are kept")
	cmd.Flags().IntVar(&f.repeats, "repeats", 0, "make so `many` repeats of each row, where its own number leaves it undecided; default: 10, or 3 of those that take long")
	cmd.Flags().BoolVar(&f.quick, "quick", false, "make one repeat of fewer operations for each row, to see that everything works")
	cmd.Flags().BoolVar(&f.profile, "profile", false, "after each row, profile the manager and the API server under its load, into profiles/, and name the largest entries")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the rows and end")
	cmd.AddCommand(newNullWebhookCommand())
	return cmd
}

func (f *benchFlags) run(cmd *cobra.Command) (err error) {
	if f.root == "" {
		if f.root, err = cluster.FindRoot(); err != nil {
			return err
		}
	}
	log.SetLogger(logr.Discard())
	work := filepath.Join(f.root, "bin", "bench")
	logs, err := logToFile(filepath.Join(work, "libraries.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logs.Close()) }()
	o := bench.Options{Root: f.root, Results: work, Work: filepath.Join(work, "clusters"), Repeats: f.repeats, Quick: f.quick, Profile: f.profile,
		Progress: cmd.OutOrStdout()}
	if f.only = trim(f.only); len(f.only) == 1 && f.only[0] == onlyMissing {
		o.Missing = true
	} else {
		o.Only = f.only
	}
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	if o.Version, err = bench.Version(cmd.Context(), f.root, "HEAD"); err != nil {
		return err
	}
	docs := filepath.Join(f.root, "docs")
	if f.quick {
		o.Results = filepath.Join(work, "quick")
		docs = o.Results
	}
	p := page.Page{Rows: bench.Rows(), Quick: f.quick}
	if p.Machine, err = bench.DescribeMachine(cmd.Context(), f.root); err != nil {
		return err
	}
	if f.base != "" {
		o.Base, o.Results = true, filepath.Join(o.Results, "before")
		if o.Root, o.Version, err = bench.Checkout(cmd.Context(), f.root, f.base, o.Progress); err != nil {
			return err
		}
	}
	o.Written = func(rows []result.Result) error { return p.Add(docs, rows, o.Base) }
	return bench.Run(cmd.Context(), o)
}

// trim drops empty names, as of a variable of make that is not set.
func trim(names []string) []string {
	var kept []string
	for _, name := range names {
		kept = append(kept, strings.Fields(name)...)
	}
	return kept
}

func newNullWebhookCommand() *cobra.Command {
	var address, certFile, keyFile string
	cmd := &cobra.Command{
		Use:    "null-webhook",
		Short:  "Serve the webhook that Holdfast's is compared with",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.ServeNull(cmd.Context(), address, certFile, keyFile)
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "`address` to listen at")
	cmd.Flags().StringVar(&certFile, "cert", "", "`file` with the certificate")
	cmd.Flags().StringVar(&keyFile, "key", "", "`file` with the key")
	return cmd
}
