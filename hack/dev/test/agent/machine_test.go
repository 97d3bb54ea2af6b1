// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// ready are the sandboxes that the runtime of a node lists as READY.
func ready(ctx context.Context, name string) ([]string, error) {
	runtime, err := dial(ctx, name)
	if err != nil {
		return nil, err
	}
	defer runtime.Close()
	answer, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	var ids []string
	for _, s := range answer.GetItems() {
		if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ids = append(ids, s.Id)
		}
	}
	return ids, err
}

var _ = Describe("A machine", func() {
	It("takes its runtime and its agent down with its power, and brings them up with a boot", func(ctx context.Context) {
		machines := theCluster.StandIn()
		agent := node(ctx, Default, booted).AgentPID
		before, err := ready(ctx, booted)
		Expect(err).NotTo(HaveOccurred())
		Expect(before).NotTo(BeEmpty())

		do(ctx, machines.PowerOff, booted)
		Expect(syscall.Kill(agent, 0)).To(MatchError(syscall.ESRCH), "the process of the agent")
		_, err = ready(ctx, booted)
		Expect(err).To(MatchError(ContainSubstring("connection refused")))

		do(ctx, machines.Start, booted)
		Eventually(ctx, func(o Gomega, ctx context.Context) int { return node(ctx, o, booted).AgentPID }).ShouldNot(Or(BeZero(), Equal(agent)))
		Eventually(ctx, agentReady(ctx, booted)).Should(BeTrue())
		Expect(ready(ctx, booted)).NotTo(Or(BeEmpty(), ContainElements(before)))
	}, SpecTimeout(specTimeout))

	It("starts its agent again although somebody has taken the port that it had", func(ctx context.Context) {
		machines := theCluster.StandIn()
		do(ctx, machines.StopAgent, booted)
		DeferCleanup(machines.StartAgent, booted)
		Eventually(ctx, agentReady(ctx, booted)).Should(BeFalse())
		files, err := filepath.Glob(filepath.Join(nodeDir(booted), "agent-*", "config.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(1))
		content, err := os.ReadFile(files[0])
		Expect(err).NotTo(HaveOccurred())
		configuration := &configv1alpha1.AgentConfiguration{}
		Expect(yaml.UnmarshalStrict(content, configuration)).To(Succeed())
		taken, err := net.Listen("tcp", configuration.Server.HealthProbeBindAddress)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(taken.Close)

		do(ctx, machines.StartAgent, booted)
		Eventually(ctx, agentReady(ctx, booted)).Should(BeTrue())
	}, SpecTimeout(specTimeout))

	It("that is cut off has its runtime, and its agent answers once it is back", func(ctx context.Context) {
		machines := theCluster.StandIn()
		w := newWorld(ctx)
		web := w.run(ctx, "web", frozen)
		do(ctx, machines.Freeze, frozen)
		DeferCleanup(machines.Thaw, frozen)
		do(ctx, machines.CutOff, frozen)
		DeferCleanup(machines.Reconnect, frozen)
		web.forceDelete(ctx)
		Eventually(ctx, func(o Gomega, ctx context.Context) int { return len(recordOf(ctx, o, web.UID).Spec.Marks) }).Should(Equal(1))
		Consistently(ctx, web.word(ctx)).Should(BeZero())
		Expect(ready(ctx, frozen)).To(ContainElement(web.sandbox))
		do(ctx, machines.Reconnect, frozen)
		Eventually(ctx, web.word(ctx)).Should(Equal(alive))
		do(ctx, machines.Thaw, frozen)
		w.isReleased(ctx, web)
	}, SpecTimeout(specTimeout))
})
