// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// judged are policies that were in force before anything that is looked at.
var judged = release.Known(reportpolicy.Judgement{Since: time.Unix(0, 0)})

// unjudged says that what the kubelet writes does not count here, why, and what to do; empty where it counts, or where the table would decide the
// same if it did.
func (f *Facts) unjudged(entries []held, d release.Decision, now time.Time) string {
	counted := *f
	counted.Policies = judged
	if then := release.Decide(counted.observation(entries, now), now); then.Row == d.Row && then.Message == d.Message {
		return ""
	}
	const what = "What the kubelet of its node reports does not count for this pod, because other accounts can have written it: "
	switch policies := f.Policies.Get(); {
	case !f.Policies.IsKnown():
		return what + "whether admission policies refuse that could not be read (" + f.Policies.Why() +
			"). To do: explain with the right to list validatingadmissionpolicies and validatingadmissionpolicybindings."
	case !policies.InForce():
		return what + policies.Problem + ". To do: " + policies.Fix + ". This pod is older than they will be then: it waits for what the agent of its node reports."
	default:
		return what + "the admission policies that refuse that are in force only since " + inspect.Timestamp(inspect.At(policies.Since)) +
			". Nothing to do: the agent of its node is queried."
	}
}

// policyEvidence is what makes a kubelet's report evidence where agents can be queried instead.
func (f *Facts) policyEvidence() []Evidence {
	if f.Evidence != release.EvidenceAgent {
		return nil
	}
	row := Evidence{Fact: "policies about a kubelet's report", State: known, Source: reportpolicy.KubeletReports + ", " + reportpolicy.NodeIdentity}
	switch policies := f.Policies.Get(); {
	case !f.Policies.IsKnown():
		row.State, row.Value = unknown, f.Policies.Why()
	case !policies.InForce():
		row.State, row.Value = absent, policies.Problem
	default:
		row.Value = "in force since " + inspect.Timestamp(inspect.At(policies.Since))
	}
	return []Evidence{row}
}
