// SPDX-License-Identifier: Apache-2.0

package main

var inReleaseSuite = []string{"./test/integration -ginkgo.label-filter=releaseadmission"}

// admissionMutants are about what the API server judges by itself, and which writes it sends to the webhooks.
var admissionMutants = []mutant{
	{
		rule: "admission: a removal counts as CNI DEL only while the node is Ready or shuts down",
		file: "internal/releaseguard/cnidelete.go",
		old:  `case !node.Get().Ready && !node.Get().ShuttingDown:`,
		new:  `case node.IsUnknown():`, by: []string{"./internal/releaseguard"},
	},
	{
		rule: "admission: a node with a runtime that does not respond does not shut down",
		file: "internal/facts/objects.go",
		old:  `node.Status.Conditions[i].Message == shuttingDown`,
		new:  `node.Status.Conditions[i].Message != ""`, by: []string{"./internal/facts"},
	},
	{
		rule: "admission: an update that removes the last finalizer is judged as a deletion (0309)",
		file: "webhooks/release_webhook.go",
		old:  `len(after.Metadata.Finalizers) == 0`,
		new:  `len(after.Metadata.Finalizers) < 0`, by: inGuard,
	},
	{
		rule: "admission: an update that removes the last finalizer of a pool reaches the webhook (0309)",
		file: "config/webhook/release.yaml",
		old: ` > 5000
            || has(object.metadata.deletionTimestamp) && `,
		new: ` > 5000
            || false && `, by: inReleaseSuite,
	},
	{
		rule: "policy holdfast-foreign-removals: an update that removes the last finalizer of a reservation is a removal (0309)",
		file: "config/components/refuse-foreign-removals/policy.yaml",
		old: `request.operation == "DELETE"
        || has(object.metadata.deletionTimestamp) && `,
		new: `request.operation == "DELETE"
        || false && `, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-records: an update that removes the last finalizer is a deletion (0309)",
		file: "config/policies/records.yaml",
		old:  `        || has(object.metadata.deletionTimestamp) && `,
		new:  `        || false && `, by: inPolicySuite,
	},
	{
		rule: "admission: the ID of a ResourceClaim frees no address of a pod that runs (0309)",
		file: "internal/releaseguard/claim.go",
		old:  `some(rival, claimHolds(c), podHolds(w, c))`,
		new:  `some(rival, claimHolds(c))`, by: inGuard,
	},
	{
		rule: "admission: a body that does not come keeps no other request waiting (0310)",
		file: "webhooks/serve.go",
		old:  `if 0 <= r.ContentLength && r.ContentLength <= smallRequest {`,
		new:  `if r.ContentLength == 0 {`, by: inGuard,
	},
	{
		rule: "policy holdfast-foreign-removals: CNI DEL has the token of a node (security 9)",
		file: "config/components/refuse-foreign-removals/policy.yaml",
		old:  ` && size(variables.nodeNames) == 1 && variables.nodeNames[0] != ""`,
		new:  ``, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-finalizer: an annotation of before is no reason to take the finalizer off (S3)",
		file: "config/policies/finalizer.yaml",
		old:  `variables.isStated && variables.reason != variables.before`,
		new:  `variables.isStated`, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-finalizer: the finalizer of a pod that lives is judged too (S3)",
		file: "config/policies/finalizer.yaml",
		old:  `        has(oldObject.metadata.finalizers) && `,
		new:  `        has(oldObject.metadata.deletionTimestamp) && has(oldObject.metadata.finalizers) && `, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-finalizer: a reason without a statement about the addresses takes no finalizer off (S3)",
		file: "config/policies/finalizer.yaml",
		old:  `variables.isStated && variables.reason != variables.before`,
		new:  `variables.reason != "" && variables.reason != variables.before`, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-finalizer: no client states of a live pod that its addresses are kept (S3)",
		file: "config/policies/finalizer.yaml",
		old:  `(variables.isDeleted && variables.reason.startsWith("Kept: "))`,
		new:  `variables.reason.startsWith("Kept: ")`, by: inPolicySuite,
	},
}
