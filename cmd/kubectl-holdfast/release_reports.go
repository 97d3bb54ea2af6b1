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
	"github.com/holdfast-dev/holdfast/internal/inspect/auditlog"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// fromReports releases what two reports and a third audit agree on.
func (r *releaseOptions) fromReports(ctx context.Context, c *collect.Cluster, files []string) error {
	agreement, first, err := agree(ctx, c, files)
	if err != nil {
		return err
	}
	facts, backend, err := r.auditNow(ctx, c)
	if err != nil {
		return err
	}
	standing, err := r.showAgreement(agreement, audit.Audit(facts), first)
	if err != nil || len(standing) == 0 || r.dryRun {
		return err
	}
	asked, err := r.consent(ctx, strconv.Itoa(len(standing)), "the number of entries")
	if err != nil {
		return err
	}
	if asked { // a prompt may stand for hours
		if facts, backend, err = r.auditNow(ctx, c); err != nil {
			return err
		}
	}
	now := audit.Audit(facts)
	var failures []error
	for i := range standing {
		if err := r.leak(ctx, c, facts, now, backend, &standing[i]); err != nil {
			failures = append(failures, fmt.Errorf("%s of pool %s: %w", standing[i].Address, standing[i].Pool, err))
		}
	}
	return failedOf(len(standing), failures)
}

// agree reads two reports, and gives what they agree on, with the first one.
func agree(ctx context.Context, c *collect.Cluster, files []string) (*audit.Agreement, *audit.Report, error) {
	first, err := readReport(files[0])
	if err != nil {
		return nil, nil, err
	}
	second, err := readReport(files[1])
	if err != nil {
		return nil, nil, err
	}
	configuration, err := c.Configuration(ctx)
	if err != nil {
		return nil, nil, err
	}
	if configuration.Assumed {
		return nil, nil, refuse("the reports have to be delays.sandboxCreationMax of the manager apart, and that is unknown: %s; name the manager's namespace (--manager-namespace), "+
			"or have the right to get Deployments and ConfigMaps there. Nothing was changed", configuration.Source)
	}
	agreement, err := audit.Agree(first, second, configuration.Delays.SandboxCreationMax.Duration)
	if err != nil {
		return nil, nil, refuse("%v", err)
	}
	return agreement, first, nil
}

// leak releases an entry that is still a leak.
func (r *releaseOptions) leak(ctx context.Context, c *collect.Cluster, facts *audit.Facts, now *audit.Report, backend ipam.Auditable, e *audit.Entry) error {
	if still, why := now.Still(*e); !still {
		return refuse("%s", why)
	}
	record, about := recordOf(facts, backend, e)
	return r.release(ctx, c, backend, e, record, about, nil)
}

// failedOf is the failure of a release of many entries. It is a refusal, after which nothing was released, only where each of them was refused.
func failedOf(entries int, failures []error) error {
	var all []error
	refused := 0
	for _, err := range failures {
		if _, is := errors.AsType[*refusedError](err); is {
			refused++
			err = errors.New(err.Error())
		}
		all = append(all, err)
	}
	if len(failures) == 0 || refused == entries {
		return errors.Join(failures...)
	}
	return fmt.Errorf("%d of %d entries were released; the others failed: %w", entries-len(failures), entries, errors.Join(all...))
}

// auditNow reads the facts of the third audit, for which there have to be records.
func (r *releaseOptions) auditNow(ctx context.Context, c *collect.Cluster) (*audit.Facts, ipam.Auditable, error) {
	facts, backend, err := c.Audit(ctx, r.now())
	if err == nil && facts.Unserved.Records {
		err = refuseWithout()
	}
	return facts, backend, err
}

// showAgreement shows what will be released and what not, and returns the former.
func (r *releaseOptions) showAgreement(agreement *audit.Agreement, now, first *audit.Report) ([]audit.Entry, error) {
	if now.Cluster != first.Cluster {
		return nil, refuse("the reports are of another cluster (kube-system has UID %s there, and %s here)", first.Cluster, now.Cluster)
	}
	t := inspect.Table{Heading: "ALL THREE AGREE", Columns: "ADDRESS,POOL,SANDBOX,PODREF,INTERFACE",
		None: "The reports and a look at this moment agree on nothing that may be released."}
	left := inspect.Table{Heading: "LEFT AS THEY ARE", Lines: agreement.LeftOut}
	var standing []audit.Entry
	for _, e := range agreement.Entries {
		if still, why := now.Still(e); !still {
			left.Line("%s in %s: %s", e.Address, e.Pool, why)
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
			return r.Name, auditlog.RecordReference(r)
		}
	}
	return "", backend.PoolReference(e.Pool)
}
