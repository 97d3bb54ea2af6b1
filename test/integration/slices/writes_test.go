// SPDX-License-Identifier: Apache-2.0

package slices_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

type (
	allocations = []wbv1alpha1.NodeSliceAllocation
	patchStep   struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
)

const statusPath = "/status/allocations"

func ownerStep(index int, node string) patchStep {
	return patchStep{"replace", fmt.Sprintf("%s/%d/nodeName", statusPath, index), node}
}

// warned keeps the warnings that a client gets.
type warned struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader keeps a warning.
func (w *warned) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warned) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts
}

// A NodeSlicePool of four slices: those of a and b are in use, that of c is not, the last is nobody's. The nodes exist only
// by name, so nothing else moves their slices but the manager, which clears c's; here c's is taken in the same moment.
var _ = Describe("A write of a NodeSlicePool", Ordered, func() {
	var n *network
	var writer client.Client
	var warnings *warned
	var before allocations

	BeforeAll(func(ctx context.Context) {
		startGuard(ctx)
		networks++
		n = &network{name: fmt.Sprintf("net-%d", networks), subnet: networks}
		for i := range 3 {
			n.addNode(ctx)
			before = append(before, wbv1alpha1.NodeSliceAllocation{NodeName: n.node(i), SliceRange: n.slice(i)})
		}
		before = append(before, wbv1alpha1.NodeSliceAllocation{SliceRange: n.slice(3)})
		for i := range 2 {
			Expect(admin.Create(ctx, &wbv1alpha1.IPPool{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-10.%d.0.%d-26", n.node(i), n.subnet, i*64)},
				Spec: wbv1alpha1.IPPoolSpec{Range: n.slice(i), Allocations: map[string]wbv1alpha1.IPAllocation{
					"1": {ContainerID: "sandbox", PodRef: "default/pod", IfName: "net1"}}},
			})).To(Succeed())
		}
		DeferCleanup(func(ctx context.Context) {
			Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.IPPool{}, client.InNamespace(namespace))).To(Succeed())
		})
	})

	BeforeEach(func(ctx context.Context) {
		pool := n.slicePool()
		pool.Spec = wbv1alpha1.NodeSlicePoolSpec{Range: n.cidr(), SliceSize: quarters}
		pool.Status.Allocations = before
		Expect(admin.Create(ctx, pool)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, n.slicePool())).To(Succeed()) })
		warnings = &warned{}
		config := plane.Config()
		config.WarningHandler = warnings
		var err error
		writer, err = client.New(config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
	})

	// patch writes, and wants that the webhook was called this often.
	patch := func(ctx context.Context, called int, steps []patchStep, options ...client.PatchOption) *wbv1alpha1.NodeSlicePool {
		GinkgoHelper()
		data, err := json.Marshal(steps)
		Expect(err).NotTo(HaveOccurred())
		n.awaitCached(ctx)
		earlier := calls(ctx)
		pool := n.slicePool()
		Expect(writer.Patch(ctx, pool, client.RawPatch(types.JSONPatchType, data), options...)).To(Succeed())
		Expect(calls(ctx) - earlier).To(Equal(called))
		return pool
	}

	It("that gives slices in use and a free one to other nodes gives only the free one", func(ctx context.Context) {
		pool := patch(ctx, 1, []patchStep{ownerStep(0, "x"), ownerStep(1, ""), ownerStep(2, ""), ownerStep(3, "y")})
		Expect(ownersOf(pool)).To(Equal([]string{n.node(0), n.node(1), "", "y"}))
		Expect(warnings.all()).To(ConsistOf(
			And(ContainSubstring(n.slice(0)), ContainSubstring("node x was to get it")),
			And(ContainSubstring(n.slice(1)), Not(ContainSubstring("was to get it")))))
		Eventually(ctx, n.notes(ctx, v1alpha1.ReasonSliceKept)).Should(HaveLen(2))
	})

	It("leaves no trace where it is a dry run, and shows what would be", func(ctx context.Context) {
		earlier := n.notes(ctx, v1alpha1.ReasonSliceKept)()
		pool := patch(ctx, 1, []patchStep{ownerStep(0, "x"), ownerStep(2, "x")}, client.DryRunAll)
		Expect(ownersOf(pool)).To(Equal([]string{n.node(0), n.node(1), "x", ""}))
		Expect(warnings.all()).To(HaveLen(1))
		Expect(n.live(ctx).Status.Allocations).To(Equal(before))
		Expect(n.notes(ctx, v1alpha1.ReasonSliceKept)()).To(Equal(earlier))
	})

	It("that drops a slice in use keeps it", func(ctx context.Context) {
		pool := patch(ctx, 1, []patchStep{{Op: "remove", Path: statusPath + "/0"}})
		Expect(pool.Status.Allocations).To(ConsistOf(before))
	})

	It("that drops the status keeps what is in use", func(ctx context.Context) {
		pool := patch(ctx, 1, []patchStep{{Op: "remove", Path: "/status"}})
		Expect(pool.Status.Allocations).To(Equal(before[:2]))
	})

	It("that only gives slices away stays as it is", func(ctx context.Context) {
		pool := patch(ctx, 1, []patchStep{ownerStep(3, "x")})
		Expect(ownersOf(pool)).To(Equal([]string{n.node(0), n.node(1), n.node(2), "x"}))
		Expect(warnings.all()).To(BeEmpty())
	})

	It("that leaves the allocations as they are is not looked at", func(ctx context.Context) {
		pool := patch(ctx, 0, []patchStep{{Op: "add", Path: "/metadata/labels", Value: map[string]string{"a": "b"}}})
		Expect(pool.Status.Allocations).To(Equal(before))
	})

	It("that changes the order stays as it is", func(ctx context.Context) {
		other := allocations{before[3], before[1], before[0], before[2]}
		pool := patch(ctx, 1, []patchStep{{Op: "replace", Path: statusPath, Value: other}})
		Expect(pool.Status.Allocations).To(Equal(other))
		Expect(warnings.all()).To(BeEmpty())
	})

	It("that divides otherwise is not looked at", func(ctx context.Context) {
		pool := patch(ctx, 0, []patchStep{{Op: "replace", Path: "/spec/sliceSize", Value: halves}, {Op: "replace", Path: statusPath, Value: allocations{}}})
		Expect(pool.Status.Allocations).To(BeEmpty())
	})

	It("by the manager is not looked at", func(ctx context.Context) {
		config, err := plane.ServiceAccountConfig(ctx, managerNamespace, "holdfast-manager", nil)
		Expect(err).NotTo(HaveOccurred())
		writer, err = client.New(config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		pool := patch(ctx, 0, []patchStep{ownerStep(0, "")})
		Expect(ownersOf(pool)[0]).To(BeEmpty())
	})

	It("of as many slices as an object can hold is looked at in time", secondpass.Exempt("it is about the time that a call takes when none fails"), func(ctx context.Context) {
		const many = 12_000
		crowd := make(allocations, many)
		for i := range crowd { // without nodes: the manager clears the slices of nodes that are not there, and each of its writes would meet ours
			crowd[i] = wbv1alpha1.NodeSliceAllocation{SliceRange: fmt.Sprintf("100.%d.%d.%d/28", 64+i>>12, i>>4&255, i&15<<4)}
		}
		crowd[many-1] = before[0]
		patch(ctx, 1, []patchStep{{Op: "replace", Path: statusPath, Value: append(crowd, before[1:]...)}}) // b's has another place
		pool := patch(ctx, 1, []patchStep{ownerStep(many-1, "x")})
		Expect(pool.Status.Allocations[many-1]).To(Equal(before[0]))
	})
})

// slice is the range of a quarter.
func (n *network) slice(i int) string { return fmt.Sprintf("10.%d.0.%d/26", n.subnet, i*64) }
