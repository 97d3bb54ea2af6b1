// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var root, dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what Holdfast is for: failures with the guard off, then on",
		Long: `Demo plays four failures of pod addresses on a cluster of its own, each first with the
guard off and then on. It prints a table of duplicates and leaks, and writes report.json and
report.html, which shows for each address which sandbox held it when.

It fails unless every failure does harm with the guard off, and none does with it on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if root == "" {
				if root, err = cluster.FindRoot(); err != nil {
					return err
				}
			}
			if dir == "" {
				dir = filepath.Join(root, "bin", "demo")
			}
			// Progress is told by the demo itself.
			log.SetLogger(logr.Discard())
			logging.SetLogStderr(false)
			progress := cmd.ErrOrStderr()
			return demo.Run(cmd.Context(), demo.Options{
				Start:     demo.StartIn(root, filepath.Join(dir, "cluster"), progress),
				OutputDir: dir,
				Table:     cmd.OutOrStdout(),
				Progress:  progress,
			})
		},
	}
	cmd.Flags().StringVar(&root, "root", "", "`folder` of the repository; default: the one that the working directory is in")
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` for the reports, and for the cluster's logs; default: bin/demo of the repository")
	return cmd
}
