// SPDX-License-Identifier: Apache-2.0

// Package allocator_test runs Holdfast's whereabouts backend beside the real allocator of whereabouts, on one pool.
package allocator_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
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
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	patience     = time.Minute
	startTimeout = 4 * time.Minute

	poolName, poolRange = "10.0.0.0-24", "10.0.0.0/24"
	iface               = "net1"
	record              = "0f3c-uid"
)

var (
	plane     *controlplane.ControlPlane
	admin     client.Client
	allocator *wbkubernetes.Client
)

func TestAllocator(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "beside whereabouts' allocator")
}

var _ = BeforeSuite(func(ctx context.Context) {
	logf.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/k8snetworkplumbingwg/whereabouts").Output()
	Expect(err).NotTo(HaveOccurred())
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{filepath.Join(strings.TrimSpace(string(out)), "doc", "crds")}, Log: GinkgoWriter,
		AssetsDir: assetsDir(),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })

	scheme := runtime.NewScheme()
	Expect(corev1.AddToScheme(scheme)).To(Succeed())
	Expect(wb.AddToScheme(scheme)).To(Succeed())
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	clientset, err := kubernetes.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	pools, err := wbclient.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	allocator = wbkubernetes.NewKubernetesClient(pools, clientset)
}, NodeTimeout(startTimeout))

// world is a namespace that whereabouts uses, with Holdfast's backend beside it.
type world struct {
	namespace string
	backend   *whereabouts.Backend
}

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "allocator-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	mgr, err := manager.New(plane.Config(), manager.Options{
		Scheme: runtime.NewScheme(), Logger: GinkgoLogr, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	w := &world{namespace: namespace.Name, backend: whereabouts.New(whereabouts.Options{Namespaces: []string{namespace.Name}})}
	Expect(w.backend.Setup(ctx, mgr)).To(Succeed())
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(done).Should(Receive(Succeed()))
	})
	Eventually(w.backend.HasSynced).Should(BeTrue())
	return w
}

// cni is one call of whereabouts, without the Lease around it: the lease only serializes whereabouts with itself.
func (w *world) cni(ctx context.Context, mode int, pod, sandbox string) ([]net.IPNet, error) {
	_, network, err := net.ParseCIDR(poolRange)
	if err != nil {
		return nil, err
	}
	conf := types.IPAMConfig{
		PodNamespace: "ns", PodName: pod, OverlappingRanges: true,
		IPRanges: []types.RangeConfiguration{{Range: poolRange, RangeStart: network.IP}},
	}
	call := &wbkubernetes.KubernetesIPAM{Client: *allocator, Config: conf, Namespace: w.namespace, ContainerID: sandbox, IfName: iface}
	return wbkubernetes.IPManagementKubernetesUpdate(ctx, mode, call, conf)
}

// add is CNI ADD and gives the address.
func (w *world) add(ctx context.Context, pod, sandbox string) (string, error) {
	ips, err := w.cni(ctx, types.Allocate, pod, sandbox)
	if err != nil || len(ips) != 1 {
		return "", fmt.Errorf("ADD of %s gave %v: %w", pod, ips, err)
	}
	return ips[0].IP.String(), nil
}

func (w *world) del(ctx context.Context, pod, sandbox string) error {
	_, err := w.cni(ctx, types.Deallocate, pod, sandbox)
	return err
}

func (w *world) request(ip, pod, sandbox string) ipam.Request {
	return ipam.Request{Record: record, Key: ipam.Key{
		Backend: whereabouts.Name, Pool: w.namespace + "/" + poolName, IP: netip.MustParseAddr(ip),
		SandboxID: sandbox, PodRef: "ns/" + pod, Interface: iface,
	}}
}

func (w *world) release(ctx context.Context, requests ...ipam.Request) error {
	for _, r := range w.backend.Release(ctx, requests) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// pool maps offsets to sandboxes.
func (w *world) pool(ctx context.Context) map[string]string {
	GinkgoHelper()
	pool := &wb.IPPool{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: poolName}, pool)).To(Succeed())
	held := map[string]string{}
	for offset, a := range pool.Spec.Allocations {
		held[offset] = a.ContainerID
	}
	return held
}

// reservations maps their names to podrefs.
func (w *world) reservations(ctx context.Context) map[string]string {
	GinkgoHelper()
	list := &wb.OverlappingRangeIPReservationList{}
	Expect(admin.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	held := map[string]string{}
	for i := range list.Items {
		held[list.Items[i].Name] = list.Items[i].Spec.PodRef
	}
	return held
}
