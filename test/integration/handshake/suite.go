// SPDX-License-Identifier: Apache-2.0

// Package handshake runs the manager and the agents of nodes, each under its real identity and with the policies of the installation, on a real
// control plane and on the sockets of container runtimes. What the two decide is proven by unit tests, the model and hack/dev/test/sim.
package handshake

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/admission"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

const (
	responseWithin = 2 * time.Second
	// nodeGone is longer than a Node is away while it registers again. All nodes are queried about an orphan for at least as long, so that its
	// specs have a shorter one.
	nodeGone, nodeGoneSoon = 5 * time.Minute, 2 * time.Second
)

// notHere are the kinds of an installation that this suite starts itself, or that would call what does not run here.
var notHere = []string{"CustomResourceDefinition", "Deployment", "DaemonSet", "PodDisruptionBudget", "Service", "Certificate", "Issuer",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

var suite = fixture.NewSuite("handshake", fixture.PlaneTwo, func(ctx context.Context) {
	objects := fixture.Installation().Objects(notHere...)
	for _, object := range objects { // the administrator writes what the nodes of this suite report
		Expect(admission.TrustKubelets(object, "admin")).To(Succeed())
	}
	fixture.Apply(ctx, objects)
})

// queryAbout is the query about a sandbox that stands, to that Node if there is one; zero if none does.
func queryAbout(ctx context.Context, record, sandboxID string, node types.UID) release.Query {
	GinkgoHelper()
	var objects v1alpha1.GuardedNodeList
	Expect(fixture.Admin.List(ctx, &objects)).To(Succeed())
	read := facts.QueriesIn(release.Known(objects.Items), record)
	return read.About(sandboxID, node).Query.Get()
}

// startManager starts a manager whose evidence are agents.
func startManager(ctx context.Context, nodeGoneDelay time.Duration) {
	GinkgoHelper()
	story.Manager{Configure: func(c *configv1alpha1.ManagerConfiguration) {
		c.Evidence = configv1alpha1.EvidenceAgent
		c.Delays.NodeGoneDelay = &metav1.Duration{Duration: nodeGoneDelay}
		c.Handshakes.ResponseWithin = &metav1.Duration{Duration: responseWithin}
	}}.Start(ctx)
}

func reason(r v1alpha1.Reason) string { return string(r) + ": " }

func newMachine(n *story.Node) *fixture.Machine {
	GinkgoHelper()
	return fixture.NewMachine(fixture.MachineOptions{Node: n.Name, Namespace: story.AgentNamespace, Account: "holdfast-agent",
		SandboxCreationMax: story.SandboxCreationMax})
}

var _ = suite.Describe("A pod whose end no kubelet reports", func() {
	var (
		w   *story.World
		m   *fixture.Machine
		pod *corev1.Pod
	)

	BeforeEach(func(ctx context.Context) {
		w = story.New(ctx)
		m = newMachine(w.Node)
		m.StartAgent(ctx)
		startManager(ctx, nodeGone)
		pod = w.Running(ctx, "web")
		m.Run(pod, story.SandboxOf(pod))
	})

	held := func(ctx context.Context) {
		GinkgoHelper()
		Consistently(ctx, func(g Gomega) {
			g.Expect(fixture.Exists(ctx, pod)).To(BeTrue())
			g.Expect(w.Holds(ctx)).To(BeTrue())
		}).Should(Succeed())
	}
	released := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(ctx, fixture.Exists).WithArguments(pod).Should(BeFalse())
		Eventually(ctx, func() bool { return story.RecordOf(ctx, pod) == nil }).Should(BeTrue())
		Expect(w.Holds(ctx)).To(BeFalse())
	}
	query := func(ctx context.Context) release.Query {
		return queryAbout(ctx, string(pod.UID), story.SandboxOf(pod), w.Node.UID(ctx))
	}

	It("keeps its address while its sandbox is there, and gives it back once that is gone, on a frozen node", func(ctx context.Context) {
		w.Node.Report(ctx, corev1.ConditionUnknown)
		story.ForceDelete(ctx, pod)
		Eventually(ctx, story.Why).WithArguments(pod).Should(HavePrefix(reason(v1alpha1.ReasonSandboxRunning)))
		m.Stop(story.SandboxOf(pod)) // on this runtime it is not gone by that
		held(ctx)
		Expect(query(ctx)).To(And(HaveField("NodeUID", w.Node.UID(ctx)), HaveField("BootID", w.Node.BootID()), HaveField("OutOfService", false)))
		m.Remove(story.SandboxOf(pod))
		released(ctx)
	})

	It("is queried about anew under the UID of a Node that registered again", func(ctx context.Context) {
		story.ForceDelete(ctx, pod)
		Eventually(ctx, story.Why).WithArguments(pod).Should(HavePrefix(reason(v1alpha1.ReasonSandboxRunning)))
		before := w.Node.UID(ctx)
		w.Node.Deregister(ctx)
		w.Node.Register(ctx)
		Expect(w.Node.UID(ctx)).NotTo(Equal(before))
		Eventually(ctx, query).Should(HaveField("NodeUID", w.Node.UID(ctx)))
		m.Remove(story.SandboxOf(pod))
		held(ctx) // the agent that runs has the token of before
		m.StartAgent(ctx)
		released(ctx)
	})

	It("is held while the agent's runtime cannot be reached, and quotes the agent's report", func(ctx context.Context) {
		m.StopRuntime()
		story.ForceDelete(ctx, pod)
		Eventually(ctx, story.Why).WithArguments(pod).Should(And(HavePrefix(reason(v1alpha1.ReasonAgentNotResponding)),
			ContainSubstring(string(v1alpha1.ReasonRuntimeUnreachable))))
		m.Remove(story.SandboxOf(pod))
		held(ctx)
		m.StartRuntime()
		released(ctx)
	})
})

var _ = suite.Describe("An address of an unknown owner", func() {
	var (
		w              *story.World
		first, second  *fixture.Machine
		sandbox, named string
		ghost          *corev1.Pod
	)

	BeforeEach(func(ctx context.Context) {
		w = story.New(ctx)
		first, second = newMachine(w.Node), newMachine(story.Register(ctx, "second-of-"+w.Name))
		first.StartAgent(ctx)
		second.StartAgent(ctx)
		ghost = w.PodOf("ghost", "net")
		ghost.UID = "of-a-pod-that-is-gone"
		sandbox = fmt.Sprintf("%064x", w.Subnet)
		named = v1alpha1.OrphanPrefix + sandbox
	})

	why := func(ctx context.Context) string {
		if record := story.Record(ctx, named); record != nil {
			if c := meta.FindStatusCondition(record.Status.Conditions, v1alpha1.ReleasedCondition); c != nil {
				return c.Reason + ": " + c.Message
			}
		}
		return ""
	}
	reclaimed := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(ctx, func() bool { return w.Holds(ctx) || story.Record(ctx, named) != nil }).Should(BeFalse())
	}

	It("I2 I5: is reclaimed once every node has acknowledged the query, and is held while a runtime or an agent does not respond", func(ctx context.Context) {
		second.StopRuntime()
		startManager(ctx, nodeGoneSoon)
		w.Give(ctx, ghost, sandbox)
		Eventually(ctx, why).Should(And(HavePrefix(reason(v1alpha1.ReasonAwaitingAllNodes)), ContainSubstring("second-of-"+w.Name)))
		second.KillAgent()
		Eventually(ctx, first.Response).ShouldNot(BeNil())
		Consistently(ctx, w.Holds).Should(BeTrue())
		second.StartRuntime()
		second.StartAgent(ctx)
		reclaimed(ctx)
		Expect(second.Response(ctx)).To(HaveField("Claims", BeEmpty()))
	})

	It("I1: of a sandbox that runs is held until its node reports that it is gone", func(ctx context.Context) {
		first.Run(ghost, sandbox)
		startManager(ctx, nodeGoneSoon)
		w.Give(ctx, ghost, sandbox)
		Eventually(ctx, why).Should(HavePrefix(reason(v1alpha1.ReasonSandboxRunning)))
		record := story.Record(ctx, named)
		Expect(record.Spec.NodeName).To(Equal(w.Node.Name))
		Expect(record.Spec.Sandboxes).To(ConsistOf(And(HaveField("Attribution", v1alpha1.AttributionAgentSeen), HaveField("Node.UID", w.Node.UID(ctx)))))
		Eventually(ctx, queryAbout).WithArguments(named, sandbox, w.Node.UID(ctx)).Should(And(HaveField("NodeUID", w.Node.UID(ctx)), HaveField("BootID", w.Node.BootID())))
		Consistently(ctx, w.Holds).Should(BeTrue())
		first.Remove(sandbox)
		reclaimed(ctx)
	})
})
