// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
)

const auditDescription = `Audit reads every pool, every pod that may have an address of it, every record of Holdfast
with what agents report, reservations, slices, nodes and the findings about node-scoped
objects, live and in pages, and says what contradicts what: duplicates, conflicts, what is
unrecorded, leaks, what is stale, and what cannot be read.

It changes nothing. A pod that starts or ends while it is being read can look like a
contradiction once. So nothing is ever released on one report: write two with --report, apart
by delays.sandboxCreationMax (10 minutes, unless configured otherwise) or more, and give both
to kubectl holdfast release --from-report.

It needs no installation of Holdfast: run it before. Where the API server does not serve the
types of Holdfast, of whereabouts or of Multus there is nothing of theirs, and the report says in
a line what that means for the findings. Where it cannot be asked whether it serves them, or
serves another version of them than this command reads, the audit fails.

It ends with exit code 2 where it found something, or could not read something.`

func (o *options) newAuditCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:     "audit",
		Aliases: []string{"check"},
		Short:   "Compare the IPAM's records with pods, with Holdfast's records and with nodes",
		Long:    auditDescription,
		Example: `  kubectl holdfast audit

  # A report for a later comparison
  kubectl holdfast audit --report before.json

  # The leaks alone
  kubectl holdfast audit -o json | jq '.findings[] | select(.class == "Leak")'`,
		Args:              cobra.NoArgs,
		PreRunE:           o.checkOutput,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: o.reporting(func(ctx context.Context, c *collect.Cluster, _ []string) (inspect.Report, error) {
			if err := checkNew(file); err != nil {
				return nil, err
			}
			f, _, err := c.Audit(ctx, o.now())
			if err != nil {
				return nil, err
			}
			report := audit.Audit(f)
			return report, writeReport(report, file)
		}),
	}
	cmd.Flags().StringVar(&file, "report", "", "also write the report to this `file`, for release --from-report; one with content is not written over")
	o.addOutput(cmd)
	return cmd
}

// checkNew refuses a file with content before anything is read.
func checkNew(file string) error {
	info, err := os.Stat(file)
	switch {
	case file == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking at the file for the report: %w", err)
	case info.Size() > 0:
		return fmt.Errorf("%s has content, and is not written over: name another file", file)
	}
	return nil
}

func writeReport(report *audit.Report, file string) error {
	if file == "" {
		return nil
	}
	content, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// readReport reads what writeReport has written.
func readReport(file string) (*audit.Report, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	report := &audit.Report{}
	want := inspect.Type("AuditReport")
	if err := json.Unmarshal(content, report); err != nil || report.TypeMeta != want {
		return nil, fmt.Errorf("%s is no report of kubectl holdfast audit --report: expected kind %s of %s, found %q of %q (%w)",
			file, want.Kind, want.APIVersion, report.Kind, report.APIVersion, errors.Join(err, errNoReport))
	}
	return report, nil
}

var errNoReport = errors.New("write one with kubectl holdfast audit --report")
