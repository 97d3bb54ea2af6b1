// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// notMeasured are the rows that no experiment measures yet.
var notMeasured = []page.Row{
	missing("nodes-deleted", "1,000 Nodes deleted with 50,000 records: last release after the delay", "the same writes made bare", ratio, result.AtMost, 1.3),
	missing("node-objects", "processor time of the manager while 5,000 node agents write every 15 seconds", "no policy", "seconds", result.AtMost, 0),
	missing("slopes", "cost against size, the steepest log-log slope", "", "slope", result.AtMost, 1.05),
}

func missing(name, title, against, unit string, op result.Op, value float64) page.Row {
	return page.Row{Name: name, Title: title, Against: against, Unit: unit, Target: result.Target{Op: op, Value: value}}
}
