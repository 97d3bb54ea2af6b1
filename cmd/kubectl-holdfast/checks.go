// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
)

const auditDescription = `Audit reads every pool, every pod that may have an address of it, every record of Holdfast
with what agents report, reservations, slices, nodes and the findings about node-scoped
objects, live and in pages, and reports contradictions: duplicates, conflicts, what is
unrecorded, leaks, what is stale, and what cannot be read.

It changes nothing. A pod that starts or terminates during the reads can look like a
contradiction once. So nothing is ever released on one report: write two with --report, apart
by delays.sandboxCreationMax (10 minutes, unless configured otherwise) or more, and give both
to kubectl holdfast release --from-report.

It needs no installation of Holdfast: run it before. Where the API server does not serve the
types of Holdfast, of whereabouts or of Multus, there are no such objects, and a line of the report
has what that means for the findings. If it is unknown whether it serves them, or if it serves
another version of them than this command reads, the audit fails.

It ends with exit code 2 where it found something, or could not read something.`

func (o *options) newAuditCommand() *cobra.Command {
	file := ""
	cmd := o.reporting(&cobra.Command{
		Use:     "audit",
		Aliases: []string{"check"},
		Short:   "Compare the IPAM's records with pods, with Holdfast's records and with nodes",
		Long:    auditDescription,
		Example: `  kubectl holdfast audit

  # A report for a later comparison
  kubectl holdfast audit --report before.json

  # The leaks alone
  kubectl holdfast audit -o json | jq '.findings[] | select(.class == "Leak")'`,
	}, func(ctx context.Context, c *collect.Cluster, _ []string) (inspect.Report, error) {
		if err := checkNew(file); err != nil {
			return nil, err
		}
		f, _, err := c.Audit(ctx, o.now())
		if err != nil {
			return nil, err
		}
		report := audit.Audit(f)
		return report, writeReport(report, file)
	})
	cmd.Flags().StringVar(&file, "report", "", "also write the report to this `file`, for release --from-report; one with content is not written over")
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

const doctorDescription = `Doctor looks at the installation: whether its types are served, the manager's replicas, its
configuration, the serving certificate, why cert-manager cannot issue it or when it renews it,
whether every webhook trusts it and has a replica behind it, whether a pod is really protected,
webhooks of others that would prevent the removal of a finalizer, whether guarded pods can be
changed, whether the guard could keep the cluster from starting, the rights of the accounts, the
IPAM, removals that were not safe, agents, versions, what is held the longest, and what no row of
the decision table fits.

Two checks are dry runs: the creation of a pod that names a network (in --namespace, or the
context's), and the patch that removes our finalizer from a guarded pod. Nothing is stored.

Before an installation, --manifest has it judge whether the cluster fits what a file would
install: the version of Kubernetes, agents where they are needed, kinds that are not served,
what protects pods in spite of mode Shadow, and the accounts that run CNI DEL. These are the
combinations that the chart refuses.

Each check is OK, WARN or FAIL. What could not be read is WARN and names the missing right. It
ends with exit code 2 where a check failed; a warning is no failure.`

func (o *options) newDoctorCommand() *cobra.Command {
	manifest := ""
	cmd := o.reporting(&cobra.Command{
		Use:   "doctor",
		Short: "Check whether Holdfast works, and what to do where it does not",
		Long:  doctorDescription,
		Example: `  kubectl holdfast doctor

  # In a pipeline
  kubectl holdfast doctor -o json | jq -e '[.checks[] | select(.level == "FAIL")] == []'

  # Try the protection where your workloads are
  kubectl holdfast doctor -n apps

  # Before the installation
  kubectl kustomize config/default | kubectl holdfast doctor --manifest -`,
		PreRun: func(*cobra.Command, []string) { o.warnings = rest.NoWarnings{} }, // the pod of the dry run causes some
	}, func(ctx context.Context, c *collect.Cluster, _ []string) (inspect.Report, error) {
		if manifest != "" {
			return o.fits(ctx, c, manifest)
		}
		namespace, err := o.namespace()
		if err != nil {
			return nil, err
		}
		f, err := c.Doctor(ctx, version, namespace)
		if err != nil {
			return nil, err
		}
		return doctor.Diagnose(f, o.now()), nil
	})
	cmd.Flags().StringVar(&manifest, "manifest", "", "judge, before an installation, whether the cluster fits what this `file` would install; - is standard input")
	return cmd
}

// fits judges a manifest that is not installed yet.
func (o *options) fits(ctx context.Context, c *collect.Cluster, file string) (inspect.Report, error) {
	read := func() ([]byte, error) { return os.ReadFile(file) }
	if file == "-" {
		read = func() ([]byte, error) { return io.ReadAll(o.In) }
	}
	manifest, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	f, planned, err := c.Fits(ctx, file, manifest)
	if err != nil {
		return nil, err
	}
	return doctor.Fits(f, planned, o.now()), nil
}
