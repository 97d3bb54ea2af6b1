// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// notMeasured are the rows that no experiment measures yet.
var notMeasured = []page.Row{
	missing("admission-policy", "creation, saturated, with the admission policy variant", "null webhook", ratio, result.AtLeast, 1),
	missing("cni-del", "admission of a CNI DEL at 100,000 records", "at 1,000 records", ratio, result.AtMost, 1.1),
	missing("reclaim", "writes to reclaim one of 1,000 leaks in one pool", "", "calls", result.AtMost, 4),
	missing("turnover", "turnover of N pods in N addresses, also with node slices", "whereabouts alone", ratio, result.AtLeast, 0.97),
	missing("burst-delete", "300 pods deleted at once", "unguarded", ratio, result.AtLeast, 0.95),
	missing("failover", "first release after the leader is killed with 50,000 held records, beyond the Lease duration", "", "seconds", result.AtMost, 5),
	missing("nodes-deleted", "1,000 Nodes deleted with 50,000 records: last release after the delay", "the same writes made bare", ratio, result.AtMost, 1.3),
	missing("agents-restart", "restart of all 5,000 agents", "", "seconds", result.AtMost, 120),
	missing("audit", "audit at 100,000 entries, nothing changed", "at 10,000 entries", ratio, result.AtMost, 1.1),
	missing("agent-queries", "agent: 250 queries on 250 sandboxes that are not ready", "one ListPodSandbox and their status calls", ratio, result.AtMost, 1.5),
	missing("node-objects", "processor time of the manager while 5,000 node agents write every 15 seconds", "no policy", "seconds", result.AtMost, 0),
	missing("slopes", "cost against size, the steepest log-log slope", "", "slope", result.AtMost, 1.05),
}

func missing(name, title, against, unit string, op result.Op, value float64) page.Row {
	return page.Row{Name: name, Title: title, Against: against, Unit: unit, Target: result.Target{Op: op, Value: value}}
}
