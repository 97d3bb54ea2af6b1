// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = suite.Describe("An uninstallation under a live manager", func() {
	It("ends it before it can protect again, and leaves nothing of what it made", func(ctx context.Context) {
		apps := newNamespace(ctx)
		install(ctx)
		DeferCleanup(cleanUp, apps)
		pod := awaitPods(ctx, own, 2)[0]
		bind(ctx, &pod)
		// The manager takes its time to stop: until it is being waited for.
		out, progress, awaited := &output{}, &output{}, make(chan struct{})
		progress.at("waiting for the manager's pods to stop", func() { close(awaited) })
		stopped := runManager(ctx, &pod, awaited)

		By("being at work: an unprotected pod is protected late, entries have their records, policies have their webhooks")
		living := withNetworks(apps, "living")
		living.Annotations["k8s.v1.cni.cncf.io/network-status"] = `[{"name":"` + apps + `/storage","interface":"net1","ips":["192.0.2.2"]}]`
		Expect(admin.Create(ctx, living)).To(Succeed())
		pool := newPool(apps)
		Expect(admin.Create(ctx, pool)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, pool)).To(Succeed()) })
		Eventually(ctx, fixture.HeldPods).Should(ContainElement(apps + "/living"))
		held := hold(ctx, apps, 1)[0]
		Eventually(ctx, func(g Gomega) {
			var records v1alpha1.IPAllocationList
			g.Expect(admin.List(ctx, &records)).To(Succeed())
			g.Expect(records.Items).NotTo(BeEmpty())
		}).Should(Succeed())
		Eventually(ctx, func() []string { return webhooksAndProtectors(ctx) }).Should(ContainElement("holdfast-node-resources"))

		out.at("Removing what protects pods", func() { Expect(stopped()).To(BeTrue()) })
		o := options(out)
		o.Progress = progress
		uninstalled(ctx, o)
		_, err := read(ctx, held)
		Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		live, err := read(ctx, living)
		Expect(err).NotTo(HaveOccurred())
		Expect(live.Finalizers).To(BeEmpty())
		Expect(out.String()).To(ContainSubstring(apps + "/held-0"))
	}, SpecTimeout(specTimeout))
})

func bind(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(admin.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: stoppedNode}})).To(Succeed())
}

// runManager runs the manager as the pod's kubelet would: under the installed account, until the pod is deleted and it may end;
// then the pod's object is deleted. The function reports whether the manager has exited.
func runManager(ctx context.Context, pod *corev1.Pod, mayEnd <-chan struct{}) (stopped func() bool) {
	GinkgoHelper()
	identity := fixture.AccountConfig(ctx, own, app.Name, nil)
	watcher, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: fixture.Scheme})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	endManager := fixture.RunManager(ctx, func(running context.Context) (manager.Manager, error) {
		return app.New(running, identity, managerConfiguration(), app.Options{Log: logr.Discard()})
	})
	stop := sync.OnceFunc(func() { endManager(); close(ended) })

	kubelet, end := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(end)
	watch, err := watcher.Watch(kubelet, &corev1.PodList{}, client.InNamespace(own))
	Expect(err).NotTo(HaveOccurred())
	go func() {
		defer GinkgoRecover()
		defer watch.Stop()
		for event := range watch.ResultChan() {
			if seen, is := event.Object.(*corev1.Pod); is && seen.UID == pod.UID && seen.DeletionTimestamp != nil {
				select {
				case <-mayEnd:
				case <-kubelet.Done():
					return
				}
				stop()
				Expect(client.IgnoreNotFound(admin.Delete(kubelet, pod, client.GracePeriodSeconds(0)))).To(Succeed())
				return
			}
		}
	}()
	return func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
}

// managerConfiguration serves on free ports, with a certificate of its own.
func managerConfiguration() *configv1alpha1.ManagerConfiguration {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600)).To(Succeed())
	return &configv1alpha1.ManagerConfiguration{Server: configv1alpha1.Server{
		WebhookHost: "127.0.0.1", WebhookPort: new(int32(fixture.FreePort())), CertDir: folder,
		MetricsBindAddress: configv1alpha1.ServeNothing, HealthProbeBindAddress: fmt.Sprintf("127.0.0.1:%d", fixture.FreePort()),
	}}
}
