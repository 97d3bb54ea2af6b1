// SPDX-License-Identifier: Apache-2.0

package nodesweep_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// deadUID is the UID of a Node that is gone.
const deadUID = types.UID("00000000-0000-4000-8000-00000000dead")

var _ = Describe("Reporting", func() {
	It("finds at its start what went wrong before it, and says so in status, event and metric", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		other := createNode(ctx, named("other"))
		stale := create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		create(ctx, nodecrds.NodeNetworkConfig(other.Name, other.UID))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		startSweeper(ctx, nil)

		found := expectSwept(ctx, p.Name, counts{Objects: 2, Stale: 1})
		Expect(found.StaleObjects).To(ConsistOf(v1alpha1.StaleObject{
			Namespace: metav1.NamespaceSystem, Name: node.Name, UID: stale.GetUID(), NodeName: node.Name,
			FoundUID: deadUID, LiveUID: node.UID, Reason: v1alpha1.ReasonStaleNodeUID,
		}))
		Eventually(notes(ctx, stale, v1alpha1.ReasonStaleNodeObject)).Should(ConsistOf(
			And(ContainSubstring(node.Name), ContainSubstring(string(deadUID)), ContainSubstring(string(node.UID)))))
		Eventually(gauge("holdfast_node_objects", p.Name, "state", "stale")).Should(Equal(1.0))
		Eventually(gauge("holdfast_node_objects", p.Name, "state", "owned")).Should(Equal(1.0))
		Eventually(gauge("holdfast_node_sweeps_total", p.Name, "result", string(v1alpha1.ReasonSweepCompleted))).Should(BeNumerically(">=", 1))
		Consistently(gone(ctx, stale)).Should(BeFalse(), "the policy says Report")
	}, SpecTimeout(specTimeout))

	It("looks when a Node is replaced under its name, goes, or comes", func(ctx context.Context) {
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		startSweeper(ctx, nil)
		expectSwept(ctx, p.Name, counts{})
		node := createNode(ctx, named("node"))
		create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID))

		replaced := replaceNode(ctx, node)
		found := expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		Expect(found.StaleObjects[0].LiveUID).To(Equal(replaced.UID))

		deleteNode(ctx, replaced)
		Eventually(func(g Gomega) v1alpha1.Reason {
			found := livePolicy(ctx, g, p.Name).Status.Sweep
			g.Expect(found.StaleObjects).To(HaveLen(1))
			return found.StaleObjects[0].Reason
		}).WithContext(ctx).Should(Equal(v1alpha1.ReasonNodeMissing))

		again := createNode(ctx, node.Name)
		Eventually(func(g Gomega) types.UID {
			return livePolicy(ctx, g, p.Name).Status.Sweep.StaleObjects[0].LiveUID
		}).WithContext(ctx).Should(Equal(again.UID))
	}, SpecTimeout(specTimeout))

	It("looks at the objects of one node only where they have its name, and finds them in every namespace", secondpass.Exempt("a look that fails is followed by a sweep over all"), func(ctx context.Context) {
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		var full, targeted atomic.Int64
		s := startSweeper(ctx, nil)
		expectSwept(ctx, p.Name, counts{})
		name := named("node")
		s.when(func(request *http.Request) *http.Response {
			switch {
			case !isList(request, nodecrds.NodeNetworkConfigs):
			case request.URL.Query().Get("fieldSelector") == "metadata.name="+name:
				targeted.Add(1)
			default:
				full.Add(1)
			}
			return nil
		})
		node := createNode(ctx, name)
		Eventually(targeted.Load).Should(Equal(int64(1)))
		Consistently(full.Load).Should(BeZero(), "nothing is wrong with a new node")

		object := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		object.SetNamespace(managerNamespace)
		create(ctx, object)
		replaceNode(ctx, node)
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
	}, SpecTimeout(specTimeout))

	It("sweeps once for many Nodes where an object's node is in a field", secondpass.Exempt("it counts sweeps"), func(ctx context.Context) {
		var sweeps atomic.Int64
		p := create(ctx, policy(nodecrds.BlockAffinities, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.Resource.Versions = []string{"v1"}
			s.NodeName.FieldPath, s.NodeUID.Presence, s.MissingNode = "spec.node", v1alpha1.UIDIfPresent, v1alpha1.MissingNodeDeny
		}))
		s := startSweeper(ctx, nil)
		expectSwept(ctx, p.Name, counts{})
		block := create(ctx, nodecrds.BlockAffinity(named("node-0")))
		s.when(func(request *http.Request) *http.Response {
			if isList(request, nodecrds.BlockAffinities) {
				sweeps.Add(1)
			}
			return nil
		})
		for _, n := range []string{"node-1", "node-2", "node-3", "node-4", "node-5"} {
			createNode(ctx, named(n))
		}
		found := expectSwept(ctx, p.Name, counts{Objects: 1, Unowned: 1})
		Expect(found.StaleObjects[0].NodeName).To(Equal(named("node-0")))
		Expect(found.StaleObjects[0].Reason).To(Equal(v1alpha1.ReasonNodeMissing))
		Expect(sweeps.Load()).To(Equal(int64(1)))
		Eventually(notes(ctx, block, v1alpha1.ReasonNodeMissing)).Should(HaveLen(1))

		createNode(ctx, named("node-0"))
		expectSwept(ctx, p.Name, counts{Objects: 1})
	}, SpecTimeout(specTimeout))

	It("looks again at every interval, and repeats neither event nor status", secondpass.Exempt("a sweep that failed is news in the status"), func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		p := create(ctx, policy(nodecrds.HostSubnets, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.NodeUID.Annotation = nodecrds.HostSubnetUIDAnnotation
		}))
		startSweeper(ctx, sweepsOften)
		expectSwept(ctx, p.Name, counts{})
		subnet := create(ctx, nodecrds.HostSubnet(node.Name, deadUID))
		found := expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
		Expect(found.StaleObjects[0].FoundUID).To(Equal(deadUID))

		version := livePolicy(ctx, Default, p.Name).ResourceVersion
		swept := gauge("holdfast_node_sweeps_total", p.Name, "result", string(v1alpha1.ReasonSweepCompleted))
		before := swept(Default)
		Eventually(swept).Should(BeNumerically(">", before+3))
		Expect(notes(ctx, subnet, v1alpha1.ReasonStaleNodeObject)(Default)).To(HaveLen(1))
		Expect(livePolicy(ctx, Default, p.Name).ResourceVersion).To(Equal(version))

		subnet.SetAnnotations(map[string]string{nodecrds.HostSubnetUIDAnnotation: string(node.UID)})
		Expect(admin.Update(ctx, subnet)).To(Succeed())
		expectSwept(ctx, p.Name, counts{Objects: 1})
	}, SpecTimeout(specTimeout))

	It("counts objects that carry no UID, or that of another node, and leaves them", func(ctx context.Context) {
		node, other := createNode(ctx, named("node")), createNode(ctx, named("other"))
		bare := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		bare.SetOwnerReferences(nil)
		create(ctx, bare)
		crossed := nodecrds.NodeNetworkConfig(other.Name, node.UID)
		crossed.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}})
		create(ctx, crossed)
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, deleting))
		startSweeper(ctx, sweepsOften)
		found := expectSwept(ctx, p.Name, counts{Objects: 2, Unowned: 2})
		Expect([]v1alpha1.Reason{found.StaleObjects[0].Reason, found.StaleObjects[1].Reason}).To(Equal(
			[]v1alpha1.Reason{v1alpha1.ReasonNodeUIDMissing, v1alpha1.ReasonNodeNameMismatch}))
		Consistently(gone(ctx, bare)).Should(BeFalse())
		Expect(gone(ctx, crossed)()).To(BeFalse())
	}, SpecTimeout(specTimeout))

	It("names twenty objects, in order, and counts all", secondpass.Exempt("it counts the reads of a sweep"), func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		for i := range 23 {
			object := nodecrds.NodeNetworkConfig(node.Name, deadUID)
			object.SetNamespace("default")
			object.SetName(named("object-" + string(rune('a'+i))))
			create(ctx, object)
		}
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.NodeName.Expression, s.Resource.Versions = "'"+node.Name+"'", []string{"v1alpha"}
		}))
		var reads atomic.Int64
		startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/api/v1/nodes/"+node.Name) {
				reads.Add(1)
			}
			return nil
		})
		found := expectSwept(ctx, p.Name, counts{Objects: 23, Stale: 23})
		Expect(reads.Load()).To(Equal(int64(1)), "a sweep reads a Node once")
		Expect(found.StaleObjects).To(HaveLen(20))
		Expect(found.StaleObjects[0].Name).To(Equal(named("object-a")))
		Expect(found.StaleObjects[19].Name).To(Equal(named("object-t")))
	}, SpecTimeout(specTimeout))

	It("forgets a policy that is deleted: no series of it is left", func(ctx context.Context) {
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		startSweeper(ctx, nil)
		expectSwept(ctx, p.Name, counts{})
		_, found := metric("holdfast_node_objects", p.Name)
		Expect(found).To(BeTrue())
		Expect(admin.Delete(ctx, p)).To(Succeed())
		for _, name := range []string{"holdfast_node_objects", "holdfast_node_objects_held", "holdfast_node_address_conflicts", "holdfast_node_sweep_duration_seconds", "holdfast_node_sweeps_total"} {
			Eventually(func() bool {
				_, found := metric(name, p.Name)
				return found
			}).Should(BeFalse(), name)
		}
	}, SpecTimeout(specTimeout))

	It("does not sweep a policy that is not accepted, keeps what was found, and sweeps it once it is", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		create(ctx, nodecrds.NodeNetworkConfig(node.Name, deadUID))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		startSweeper(ctx, nil)
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})

		change(ctx, p.Name, func(s *v1alpha1.NodeResourcePolicySpec) { s.Addresses = []string{"self.("} })
		message := expectNotSwept(ctx, p.Name, v1alpha1.ReasonPolicyNotAccepted)
		Expect(message).To(ContainSubstring("spec.addresses"))
		Expect(livePolicy(ctx, Default, p.Name).Status.Sweep.Stale).To(Equal(int64(1)))

		change(ctx, p.Name, func(s *v1alpha1.NodeResourcePolicySpec) { s.Addresses = nil })
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})
	}, SpecTimeout(specTimeout))

	It("writes its own part of the status only", func(ctx context.Context) {
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		startSweeper(ctx, nil)
		expectSwept(ctx, p.Name, counts{})
		Eventually(func(g Gomega) {
			live := livePolicy(ctx, g, p.Name)
			var owned []string
			for _, entry := range live.ManagedFields {
				if entry.Manager == noderesource.SweeperFieldManager {
					owned = append(owned, entry.FieldsV1.GetRawString())
				}
			}
			g.Expect(owned).To(HaveLen(1))
			g.Expect(owned[0]).To(And(ContainSubstring(`"f:sweep"`), ContainSubstring(`\"type\":\"Swept\"`)))
			g.Expect(strings.Count(owned[0], `k:{`)).To(Equal(1))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("writes the time of a sweep that found the same once per half an interval", secondpass.Exempt("a sweep that failed is news in the status"), func(ctx context.Context) {
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		s := startSweeper(ctx, nil)
		first := expectSwept(ctx, p.Name, counts{})
		s.pass(never / 4)
		swept := gauge("holdfast_node_sweeps_total", p.Name, "result", string(v1alpha1.ReasonSweepCompleted))
		before := swept(Default)
		label(ctx, p.Name, "one") // a change of metadata asks for nothing
		change(ctx, p.Name, func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = 1 })
		Eventually(swept).Should(BeNumerically(">", before))
		expectSwept(ctx, p.Name, counts{})
		Expect(livePolicy(ctx, Default, p.Name).Status.Sweep.Time).To(Equal(first.Time))

		s.pass(never / 2)
		change(ctx, p.Name, func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = 3 })
		Eventually(func(g Gomega) time.Time {
			return livePolicy(ctx, g, p.Name).Status.Sweep.Time.Time
		}).WithContext(ctx).Should(BeTemporally(">", first.Time.Time))
	}, SpecTimeout(specTimeout))
})
