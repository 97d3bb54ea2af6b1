// SPDX-License-Identifier: Apache-2.0

// Package judged stands in for the admission policies that make a kubelet's report evidence, for suites that write the reports of simulated
// kubelets with their own account.
package judged

import (
	"context"
	"time"
)

// Always reports that the policies have been in force since before every pod.
func Always(context.Context) (time.Time, error) { return time.Unix(0, 0), nil }
