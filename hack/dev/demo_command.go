// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo"
)

func newDemoCommand() *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo [SCENARIO...]",
		Short: "Show what Holdfast is for: failures with the guard off and on",
		Long: `Demo plays failures of pod addresses on two clusters of its own, one after the other, of which one
has the guard. It prints a table of duplicates and leaks, and writes report.json and
report.html, which shows for each address which sandbox held it when. Without arguments it
plays all of them; --list shows their names.

It fails unless every failure does harm with the guard off, and none does with it on.

The simulated nodes of the cluster that has the guard run Holdfast's agent, as an
installation does. With --evidence Kubelet they do not, and the kubelets' reports are the
only evidence.`,
		Example: `  holdfast-dev demo
  holdfast-dev demo --evidence Kubelet
  holdfast-dev demo slice-handed-on pool-full-after-reboot`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				fmt.Fprint(cmd.OutOrStdout(), demo.List())
				return nil
			}
			return f.run(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&f.list, "list", false, "list the scenarios and end")
	f.evidence.add(cmd.Flags())
	cmd.Flags().StringVar(&f.root, "root", "", "`folder` of the repository; default: the one that the working directory is in")
	cmd.Flags().StringVar(&f.dir, "dir", "", "`folder` for the reports, and for the clusters' logs; default: bin/demo of the repository")
	return cmd
}

type demoFlags struct {
	root, dir string
	evidence  evidenceFlag
	list      bool
}

func (f *demoFlags) run(cmd *cobra.Command, scenarios []string) (err error) {
	evidence, err := f.evidence.parse()
	if err != nil {
		return err
	}
	if f.root == "" {
		if f.root, err = cluster.FindRoot(); err != nil {
			return err
		}
	}
	if f.dir == "" {
		f.dir = filepath.Join(f.root, "bin", "demo")
	}
	// The demo itself prints progress; the log of libraries is written to a file.
	log.SetLogger(logr.Discard())
	logging.SetLogStderr(false)
	logs, err := logToFile(filepath.Join(f.dir, "demo.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logs.Close()) }()
	return demo.Run(cmd.Context(), demo.Options{
		Scenarios: scenarios,
		Evidence:  evidence,
		Start:     demo.StartIn(f.root, filepath.Join(f.dir, "clusters"), evidence),
		OutputDir: f.dir,
		Table:     cmd.OutOrStdout(),
		Progress:  cmd.ErrOrStderr(),
	})
}

// logToFile sends what Kubernetes' libraries and whereabouts' node-slice controller log to a file.
func logToFile(path string) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(file, nil))) // by itself klog shows errors on the terminal, too
	return file, nil
}
