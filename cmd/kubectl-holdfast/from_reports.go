// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/trail"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// fromReports releases what two reports agree on, and a third look now.
func (r *releaseOptions) fromReports(ctx context.Context, c *collect.Cluster, files []string) error {
	first, err := readReport(files[0])
	if err != nil {
		return err
	}
	second, err := readReport(files[1])
	if err != nil {
		return err
	}
	configuration, err := c.Configuration(ctx)
	if err != nil {
		return err
	}
	agreement, err := audit.Agree(first, second, configuration.Delays.SandboxCreationMax.Duration)
	if err != nil {
		return refuse("%v", err)
	}
	facts, backend, err := r.lookNow(ctx, c)
	if err != nil {
		return err
	}
	standing, err := r.showAgreement(agreement, audit.Audit(facts), first)
	if err != nil || len(standing) == 0 || r.dryRun {
		return err
	}
	if err := r.consent(ctx, strconv.Itoa(len(standing)), "the number of entries"); err != nil {
		return err
	}
	var failures []error
	for i := range standing {
		record, about := recordOf(facts, backend, &standing[i])
		if err := r.release(ctx, c, backend, &standing[i], record, about, nil); err != nil {
			failures = append(failures, fmt.Errorf("%s of pool %s: %w", standing[i].Address, standing[i].Pool, err))
		}
	}
	return errors.Join(failures...)
}

// lookNow is the third look, which wants Holdfast's records.
func (r *releaseOptions) lookNow(ctx context.Context, c *collect.Cluster) (*audit.Facts, ipam.Auditable, error) {
	facts, backend, err := c.Audit(ctx, r.now())
	if err == nil && facts.Unserved.Records {
		err = refuseWithout()
	}
	return facts, backend, err
}

// showAgreement shows what will be released and what not, and gives the first.
func (r *releaseOptions) showAgreement(agreement *audit.Agreement, now, first *audit.Report) ([]audit.Entry, error) {
	if now.Cluster != first.Cluster {
		return nil, refuse("the reports are of another cluster (kube-system has UID %s there, and %s here)", first.Cluster, now.Cluster)
	}
	t := inspect.Table{Heading: "ALL THREE AGREE", Columns: inspect.Columns("ADDRESS", "POOL", "SANDBOX", "PODREF", "INTERFACE"),
		None: "The reports and a look at this moment agree on nothing that may be released."}
	left := inspect.Table{Heading: "LEFT AS THEY ARE", Lines: agreement.LeftOut}
	var standing []audit.Entry
	for _, e := range agreement.Entries {
		if still, why := now.Still(e); !still {
			left.Say("%s in %s: %s", e.Address, e.Pool, why)
			continue
		}
		standing = append(standing, e)
		t.Add(e.Address, e.Pool, e.SandboxID, e.PodRef, e.Interface)
	}
	if err := inspect.Write(r.Out, []inspect.Table{t, left}, true); err != nil {
		return nil, err
	}
	if r.dryRun {
		fmt.Fprintln(r.Out, "A dry run: nothing was changed.")
	}
	return standing, nil
}

// recordOf is the record that holds an entry as an orphan, and the object of its events: that record, or the pool.
func recordOf(facts *audit.Facts, backend ipam.Auditable, e *audit.Entry) (record string, about *corev1.ObjectReference) {
	for i := range facts.Records {
		if r := &facts.Records[i]; r.Name == v1alpha1.OrphanPrefix+e.SandboxID {
			return r.Name, trail.RecordReference(r)
		}
	}
	return "", backend.PoolReference(e.Pool)
}
