// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

// describeAllocator runs Holdfast's backend beside whereabouts' allocator, on one pool of a namespace that nobody else uses.
func describeAllocator() {
	Describe("whereabouts' allocator beside a release", func() {
		var b *beside
		BeforeEach(func(ctx context.Context) { b = newBeside(ctx) })

		It("gives an address under a tombstone to nobody, a pod of the same name included, and a released one to the next pod", func(ctx context.Context) {
			first := b.add(ctx, "web-0", "sb-1")
			b.mark(ctx, "1")
			successor := b.add(ctx, "web-0", "sb-2")
			Expect(successor).NotTo(Equal(first))
			Expect(b.release(ctx, b.request(first, "web-0", "sb-1"))).To(Succeed())
			Expect(b.pool(ctx)).To(Equal(map[string]string{"2": "sb-2"}))
			Expect(b.add(ctx, "db-0", "sb-3")).To(Equal(first))
		})

		It("keeps an entry that a successor inherited before the release came", func(ctx context.Context) {
			first := b.add(ctx, "web-0", "sb-1")
			Expect(b.add(ctx, "web-0", "sb-2")).To(Equal(first), "whereabouts gives the address by name")
			Expect(b.release(ctx, b.request(first, "web-0", "sb-1"))).To(MatchError(ipam.ErrChanged))
			Expect(b.pool(ctx)).To(Equal(map[string]string{"1": "sb-2"}))
		})

		// Leaks are released while pods come and go: at the end the pool holds exactly the pods that live, each address once.
		It("works at the same time on the same pool", func(ctx context.Context) {
			const leaks, churns, rounds, batch = 60, 3, 12, 20
			var requests []ipam.Request
			for n := range leaks {
				pod, sandbox := fmt.Sprintf("leak-%d", n), fmt.Sprintf("leaked-%d", n)
				requests = append(requests, b.request(b.add(ctx, pod, sandbox), pod, sandbox))
			}
			var wg sync.WaitGroup
			var lease sync.Mutex // stands for whereabouts' own
			for n := range churns {
				wg.Go(func() {
					defer GinkgoRecover()
					for round := range rounds {
						pod, sandbox := fmt.Sprintf("churn-%d", n), fmt.Sprintf("churn-%d-%d", n, round)
						lease.Lock()
						b.add(ctx, pod, sandbox)
						lease.Unlock()
						if round < rounds-1 { // the last one lives on
							lease.Lock()
							_, err := b.cni(ctx, types.Deallocate, pod, sandbox)
							lease.Unlock()
							Expect(err).NotTo(HaveOccurred())
						}
					}
				})
			}
			for from := 0; from < leaks; from += batch {
				wg.Go(func() {
					defer GinkgoRecover()
					Expect(b.release(ctx, requests[from:from+batch]...)).To(Succeed())
				})
			}
			wg.Wait()
			var live []string
			for _, sandbox := range b.pool(ctx) {
				live = append(live, sandbox)
			}
			Expect(live).To(ConsistOf("churn-0-11", "churn-1-11", "churn-2-11"))
		})
	})
}

const (
	besidePool, besideRange = "10.0.0.0-24", "10.0.0.0/24"
	besideRecord            = "0f3c-uid"
)

// beside is a namespace that whereabouts uses, with Holdfast's backend beside it.
type beside struct {
	namespace string
	backend   *whereabouts.Backend
	allocator *wbkubernetes.Client
}

func newBeside(ctx context.Context) *beside {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "allocator-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	config := theCluster.Config()
	mgr, err := manager.New(config, manager.Options{Scheme: runtime.NewScheme(), Logger: GinkgoLogr, Metrics: metricsserver.Options{BindAddress: "0"}})
	Expect(err).NotTo(HaveOccurred())
	b := &beside{namespace: namespace.Name, backend: whereabouts.New(whereabouts.Options{Namespaces: []string{namespace.Name}}),
		allocator: wbkubernetes.NewKubernetesClient(wbclient.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(config))}
	Expect(b.backend.Setup(ctx, mgr)).To(Succeed())
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	DeferCleanup(func(ctx context.Context) {
		stop()
		Eventually(done).Should(Receive(Succeed()))
		// whereabouts' reconciler is to see the pods of the stories alone.
		Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.IPPool{}, client.InNamespace(b.namespace))).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.OverlappingRangeIPReservation{}, client.InNamespace(b.namespace))).To(Succeed())
	})
	Eventually(b.backend.HasSynced).Should(BeTrue())
	return b
}

// cni is one call of whereabouts, without the Lease around it: the Lease only serializes whereabouts with itself.
func (b *beside) cni(ctx context.Context, mode int, pod, sandbox string) ([]net.IPNet, error) {
	_, network, err := net.ParseCIDR(besideRange)
	if err != nil {
		return nil, err
	}
	conf := types.IPAMConfig{PodNamespace: "ns", PodName: pod, OverlappingRanges: true,
		IPRanges: []types.RangeConfiguration{{Range: besideRange, RangeStart: network.IP}}}
	call := &wbkubernetes.KubernetesIPAM{Client: *b.allocator, Config: conf, Namespace: b.namespace, ContainerID: sandbox, IfName: "net1"}
	return wbkubernetes.IPManagementKubernetesUpdate(ctx, mode, call, conf)
}

// add is CNI ADD and gives the address.
func (b *beside) add(ctx context.Context, pod, sandbox string) string {
	GinkgoHelper()
	ips, err := b.cni(ctx, types.Allocate, pod, sandbox)
	Expect(err).NotTo(HaveOccurred())
	Expect(ips).To(HaveLen(1))
	return ips[0].IP.String()
}

func (b *beside) request(ip, pod, sandbox string) ipam.Request {
	return ipam.Request{Record: besideRecord, Key: ipam.Key{Backend: whereabouts.Name, Pool: b.namespace + "/" + besidePool,
		IP: netip.MustParseAddr(ip), SandboxID: sandbox, PodRef: "ns/" + pod, Interface: "net1"}}
}

func (b *beside) release(ctx context.Context, requests ...ipam.Request) error {
	for _, r := range b.backend.Release(ctx, requests) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

func (b *beside) read(ctx context.Context) *wbv1alpha1.IPPool {
	GinkgoHelper()
	pool := &wbv1alpha1.IPPool{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: besidePool}, pool)).To(Succeed())
	return pool
}

// pool maps offsets to sandboxes.
func (b *beside) pool(ctx context.Context) map[string]string {
	GinkgoHelper()
	held := map[string]string{}
	for offset, a := range b.read(ctx).Spec.Allocations {
		held[offset] = a.ContainerID
	}
	return held
}

// mark writes the tombstone, as a release that died after its first write.
func (b *beside) mark(ctx context.Context, offset string) {
	GinkgoHelper()
	pool := b.read(ctx)
	entry := pool.Spec.Allocations[offset]
	entry.PodRef = "holdfast-releasing/" + besideRecord
	pool.Spec.Allocations[offset] = entry
	Expect(admin.Update(ctx, pool)).To(Succeed())
}
