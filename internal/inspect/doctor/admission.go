// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// admissionPolicies: each policy of config/policies is installed, fails closed where it has to, and denies.
func admissionPolicies(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "admission policies"
	if !d.knows(name, f.AdmissionPolicies) {
		return
	}
	found, broken := f.AdmissionPolicies.Get(), false
	for _, policy := range reportpolicy.Installed {
		if judged := reportpolicy.Judge(policy, found.Policies, found.Bindings); !judged.InForce() {
			broken = true
			d.add(Fail, name, judged.Problem, judged.Fix)
		}
	}
	if !broken {
		d.ok(name, "%d, and each denies what it is about", len(reportpolicy.Installed))
	}
}
