// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

// A slice is a quarter of the range.
const sliceSize = "/26"

type allocations = []wbv1alpha1.NodeSliceAllocation

// slices is a world whose range is divided among nodes.
type slices struct{ *story.World }

// divided runs whereabouts' node-slice controller, and has two nodes come one by one, after which each has a slice. The network is defined where
// whereabouts' objects are: the garbage collector takes an object whose owner is in another namespace for one whose owner is gone.
func divided(ctx context.Context) (s slices, a, b *story.Node) {
	GinkgoHelper()
	s = slices{story.New(ctx)}
	s.Node.Deregister(ctx)
	config := story.Config(s.Name, story.Settings{"range": s.CIDR(24), "node_slice_size": sliceSize, "network_name": s.Name, "enable_overlapping_ranges": false})
	story.Define(ctx, story.PoolNamespace, s.Name, config)
	controller, err := process.Start(process.Options{Path: story.Program("nodeslicecontroller"), Args: []string{"-kubeconfig", fixture.Plane.Kubeconfig()},
		Env: []string{"WHEREABOUTS_NAMESPACE=" + story.PoolNamespace}, LogFile: story.Program("nodeslicecontroller.log")})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controller.Kill()).To(Succeed()) })
	Eventually(ctx, s.owners).ShouldNot(BeEmpty())
	a = s.join(ctx, "a")
	Eventually(ctx, s.owners).Should(Equal([]string{a.Name, "", "", ""}))
	b = s.join(ctx, "b")
	Eventually(ctx, s.owners).Should(Equal([]string{a.Name, b.Name, "", ""}))
	return s, a, b
}

func (s slices) join(ctx context.Context, letter string) *story.Node {
	GinkgoHelper()
	return story.Register(ctx, s.Name+"-"+letter)
}

// allocate is CNI ADD on a node.
func (s slices) allocate(ctx context.Context, node *story.Node, pod string) string {
	GinkgoHelper()
	return story.Allocate(ctx, node.Name, story.PoolNamespace, s.Name, "default/"+pod)
}

// empty empties the pools of a node, as Holdfast does once no pod uses the addresses.
func (s slices) empty(ctx context.Context, node *story.Node) {
	GinkgoHelper()
	var list wbv1alpha1.IPPoolList
	Expect(admin.List(ctx, &list, client.InNamespace(story.PoolNamespace))).To(Succeed())
	for i := range list.Items {
		if strings.Contains(list.Items[i].Name, node.Name) {
			patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/allocations","value":{}}]`))
			Expect(admin.Patch(ctx, &list.Items[i], patch)).To(Succeed())
		}
	}
}

func (s slices) pool() *wbv1alpha1.NodeSlicePool {
	return &wbv1alpha1.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: story.PoolNamespace, Name: s.Name}}
}

// owners are the nodes of the slices, in their order; empty while there is no NodeSlicePool.
func (s slices) owners(ctx context.Context) []string {
	GinkgoHelper()
	pool := s.pool()
	Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pool), pool))).To(Succeed())
	return ownersOf(pool)
}

func ownersOf(pool *wbv1alpha1.NodeSlicePool) []string {
	owners := make([]string, 0, len(pool.Status.Allocations))
	for _, allocation := range pool.Status.Allocations {
		owners = append(owners, allocation.NodeName)
	}
	return owners
}

func (s slices) notes(ctx context.Context, reason v1alpha1.Reason) ([]string, error) {
	return story.Notes(ctx, "NodeSlicePool", s.Name, reason)
}

var requests = regexp.MustCompile(`^apiserver_admission_webhook_request_total\{.*name="nodeslicepool.slices.holdfast.dev".*\} ([0-9.e+]+)$`)

// calls is how often the API server called the webhook, with any result.
func calls(ctx context.Context) int {
	GinkgoHelper()
	metrics, err := kubernetes.NewForConfigOrDie(fixture.Plane.Config()).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	sum := 0
	for line := range strings.Lines(string(metrics)) {
		if match := requests.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			value, err := strconv.ParseFloat(match[1], 64)
			Expect(err).NotTo(HaveOccurred())
			sum += int(value)
		}
	}
	return sum
}

// guarded starts a manager with the webhook, and waits until the API server calls it: for an object of a namespace that the manager does not look
// after.
func guarded(ctx context.Context) {
	GinkgoHelper()
	story.Manager{Webhooks: []string{"slices.yaml"}}.Start(ctx)
	probe := &wbv1alpha1.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "probe-"},
		Spec:   wbv1alpha1.NodeSlicePoolSpec{Range: "192.0.2.0/24", SliceSize: "/24"},
		Status: wbv1alpha1.NodeSlicePoolStatus{Allocations: allocations{{NodeName: "probe", SliceRange: "192.0.2.0/24"}}}}
	Expect(admin.Create(ctx, probe)).To(Succeed())
	Eventually(ctx, func() int {
		before := calls(ctx)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(probe), probe)).To(Succeed())
		probe.Status.Allocations[0].NodeName = ""
		Expect(admin.Update(ctx, probe, client.DryRunAll)).To(Succeed())
		return calls(ctx) - before
	}).Should(BeNumerically(">", 0))
}

var _ = suite.Describe("The slice of a node that is gone", func() {
	It("is lost at once without the guard, and the next node hands the same addresses out again", func(ctx context.Context) {
		s, a, b := divided(ctx)
		first := s.allocate(ctx, a, "old")
		a.Deregister(ctx)
		Eventually(ctx, s.owners).Should(Equal([]string{"", b.Name, "", ""}))
		c := s.join(ctx, "c")
		Eventually(ctx, s.owners).Should(Equal([]string{c.Name, b.Name, "", ""}))
		Expect(s.allocate(ctx, c, "new")).To(Equal(first))
		Expect(story.Entries(ctx)).To(HaveLen(2), "the first is not released")
	})

	It("is kept with the guard until its last entry is released", func(ctx context.Context) {
		guarded(ctx)
		s, a, b := divided(ctx)
		first := s.allocate(ctx, a, "old")
		before := calls(ctx)
		a.Deregister(ctx)
		Eventually(ctx, calls).Should(BeNumerically(">", before), "whereabouts clears the slice")
		By("a new node coming, which gets another slice in a write that clears the old one again")
		c := s.join(ctx, "c")
		Eventually(ctx, s.owners).Should(Equal([]string{a.Name, b.Name, c.Name, ""}))
		Expect(s.allocate(ctx, c, "new")).NotTo(Equal(first))
		Eventually(ctx, s.notes).WithArguments(v1alpha1.ReasonSliceKept).Should(ContainElement(And(ContainSubstring(a.Name), ContainSubstring("1 of its entries"))))

		By("its last entry being removed, after which the manager clears the slice, past its own webhook")
		s.empty(ctx, a)
		Eventually(ctx, s.owners).Should(Equal([]string{"", b.Name, c.Name, ""}))
		Eventually(ctx, s.notes).WithArguments(v1alpha1.ReasonSliceCleared).Should(ConsistOf(ContainSubstring(a.Name)))
		By("the next node, which gets it")
		d := s.join(ctx, "d")
		Eventually(ctx, s.owners).Should(Equal([]string{d.Name, b.Name, c.Name, ""}))
	})
})

// Both definitions are whereabouts' business: its controller looks for one by the name alone, in the namespace of whichever was deleted.
var _ = suite.Describe("A definition of the same name in another namespace", func() {
	deleteSecond := func(ctx context.Context, s slices) {
		GinkgoHelper()
		story.Define(ctx, "default", s.Name, story.Config(s.Name, story.Settings{"range": s.CIDR(24)}))
		second := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.Name}}
		Expect(admin.Delete(ctx, second)).To(Succeed())
	}

	It("has whereabouts delete the slices of a network without the guard", func(ctx context.Context) {
		s, a, _ := divided(ctx)
		s.allocate(ctx, a, "old")
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(s.pool()), s.pool())).To(Succeed())
		deleteSecond(ctx, s)
		Eventually(ctx, s.owners).Should(BeEmpty())
	})

	It("does not with the guard, until no address of the network is in use", func(ctx context.Context) {
		guarded(ctx)
		s, a, b := divided(ctx)
		s.allocate(ctx, a, "old")
		deleteSecond(ctx, s)
		Eventually(ctx, s.notes).WithArguments(v1alpha1.ReasonSliceKept).Should(ContainElement(And(ContainSubstring("is not deleted"), ContainSubstring(a.Name))))
		Expect(s.owners(ctx)).To(Equal([]string{a.Name, b.Name, "", ""}))

		By("the last entry being removed, after which whereabouts deletes it")
		s.empty(ctx, a)
		Eventually(ctx, s.owners).Should(BeEmpty())
	})
})

// step is one of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

const statusPath = "/status/allocations"

func give(index int, node string) step {
	return step{"replace", fmt.Sprintf("%s/%d/nodeName", statusPath, index), node}
}

// The slices of a and b are in use, the third is not, and the fourth has no node.
var _ = suite.Describe("A write of a NodeSlicePool", Ordered, func() {
	var (
		s        slices
		a, b     string
		before   allocations
		warnings *fixture.Warnings
		writer   client.Client
	)

	BeforeAll(func(ctx context.Context) {
		guarded(ctx)
		s = slices{story.New(ctx)}
		a, b = s.Node.Name, s.join(ctx, "b").Name
		before = allocations{{NodeName: a}, {NodeName: b}, {NodeName: s.join(ctx, "c").Name}, {}}
		for i := range before {
			before[i].SliceRange = s.IP(64*i) + sliceSize
		}
		for i, node := range []string{a, b} {
			pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: story.PoolNamespace, Name: fmt.Sprintf("%s-%s-%s-26", s.Name, node, s.IP(64*i))},
				Spec: wbv1alpha1.IPPoolSpec{Range: before[i].SliceRange, Allocations: map[string]wbv1alpha1.IPAllocation{
					"1": {ContainerID: "sandbox", PodRef: "default/pod", IfName: "net1"}}}}
			Expect(admin.Create(ctx, pool)).To(Succeed())
		}
		warnings = &fixture.Warnings{}
		config := fixture.Plane.Config()
		config.WarningHandlerWithContext = warnings
		writer = fixture.Client(config)
	})

	BeforeEach(func(ctx context.Context) {
		pool := s.pool()
		pool.Annotations = map[string]string{"holdfast.dev/break-glass": "the end of the spec"}
		pool.Spec = wbv1alpha1.NodeSlicePoolSpec{Range: s.CIDR(24), SliceSize: sliceSize}
		pool.Status.Allocations = before
		Expect(admin.Create(ctx, pool)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, s.pool())).To(Succeed()) })
		warnings.Take()
	})

	// patch writes, and expects that the webhook was called this often. A write begins with what the API server's own cache has; if that turns out
	// to be old, admission is asked once more (GuaranteedUpdate in k8s.io/apiserver pkg/storage/etcd3), and calls could not be counted.
	patch := func(ctx context.Context, writer client.Client, called int, steps ...step) *wbv1alpha1.NodeSlicePool {
		GinkgoHelper()
		data, err := json.Marshal(steps)
		Expect(err).NotTo(HaveOccurred())
		pool := s.pool()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		notOlder := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: pool.ResourceVersion}}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pool), pool, notOlder)).To(Succeed())
		earlier := calls(ctx)
		Expect(writer.Patch(ctx, pool, client.RawPatch(types.JSONPatchType, data))).To(Succeed())
		Expect(calls(ctx) - earlier).To(Equal(called))
		return pool
	}

	It("that gives slices in use and a free one to other nodes gives only the free one, and says so", func(ctx context.Context) {
		pool := patch(ctx, writer, 1, give(0, "x"), give(1, ""), give(2, ""), give(3, "y"))
		Expect(ownersOf(pool)).To(Equal([]string{a, b, "", "y"}))
		Expect(warnings.Take()).To(ConsistOf(
			And(ContainSubstring(before[0].SliceRange), ContainSubstring("node x was to get it")),
			And(ContainSubstring(before[1].SliceRange), Not(ContainSubstring("was to get it")))))
	})

	It("that takes nothing from a node is left as it is", func(ctx context.Context) {
		Expect(ownersOf(patch(ctx, writer, 1, give(3, "x")))).To(Equal([]string{a, b, before[2].NodeName, "x"}))
		Expect(warnings.Take()).To(BeEmpty())
	})

	It("does not reach the webhook if it changes no slice, or divides the range otherwise, or is the manager's own", func(ctx context.Context) {
		Expect(ownersOf(patch(ctx, writer, 0, step{"add", "/metadata/labels", map[string]string{"changed": "yes"}}))[0]).To(Equal(a))
		manager := fixture.Account(ctx, story.ManagerNamespace, "holdfast-manager", nil)
		Expect(ownersOf(patch(ctx, manager, 0, give(0, "")))[0]).To(BeEmpty())
		pool := patch(ctx, writer, 0, step{"replace", "/spec/sliceSize", "/25"}, step{"replace", statusPath, allocations{}})
		Expect(pool.Status.Allocations).To(BeEmpty())
	})

	It("of as many slices as an object can hold is within the budget of the condition and the time of the webhook", func(ctx context.Context) {
		const many = 12_000
		crowd := make(allocations, many)
		for i := range crowd { // without nodes: the manager clears the slices of nodes that are not there, and each of its writes would meet ours
			crowd[i] = wbv1alpha1.NodeSliceAllocation{SliceRange: fmt.Sprintf("100.%d.%d.%d/28", 64+i>>12, i>>4&255, i&15<<4)}
		}
		crowd[many-1] = before[0]
		patch(ctx, writer, 1, step{"replace", statusPath, append(crowd, before[1:]...)}) // b's has another place
		pool := patch(ctx, writer, 1, give(many-1, "x"))
		Expect(pool.Status.Allocations[many-1]).To(Equal(before[0]))
	})
})
