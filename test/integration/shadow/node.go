// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// startMachine runs the runtime and the agent of the world's node. The IDs in the machine's files are those that its Node reports.
func (w *world) startMachine(ctx context.Context) {
	GinkgoHelper()
	w.made = &writes{}
	w.machine = fixture.NewMachine(fixture.MachineOptions{Node: w.node, MachineID: w.node, BootID: w.node + "-boot", SystemUUID: w.node + "-system",
		Namespace: agentNamespace, Account: agentAccount, SandboxCreationMax: sandboxCreationMax, Wrap: w.made.wrap})
	w.machine.StartAgent(ctx)
}

// verdict is what the node said last about a sandbox of a record; empty before it said anything.
func verdict(ctx context.Context, record *v1alpha1.IPAllocation, sandbox string) func() (v1alpha1.Verdict, error) {
	return func() (v1alpha1.Verdict, error) {
		var live v1alpha1.IPAllocation
		if err := admin.Get(ctx, client.ObjectKeyFromObject(record), &live); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		for _, a := range live.Status.Answers {
			if a.SandboxID == sandbox {
				return a.Verdict, nil
			}
		}
		return "", nil
	}
}
