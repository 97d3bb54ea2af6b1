// SPDX-License-Identifier: Apache-2.0

package repair_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/judged"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// repairs is the default configuration, but for the delays: nobody should have to wait for them.
func repairs(*configv1alpha1.ManagerConfiguration) {}

func reports(c *configv1alpha1.ManagerConfiguration) {
	c.Audit.Mode = configv1alpha1.AuditModeReport
}

func denies(c *configv1alpha1.ManagerConfiguration) {
	c.UnsafeReleases.Mode = configv1alpha1.ReleaseModeDeny
}

// startManager runs the manager in this process under its own identity, with its webhooks served at a port of this machine. It
// is gone at the end of the spec, or when it is stopped.
func startManager(ctx context.Context, change func(*configv1alpha1.ManagerConfiguration)) (port int, stop func()) {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	configuration := &configv1alpha1.ManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "config.holdfast.dev/v1alpha1", Kind: "ManagerConfiguration"},
		Evidence: configv1alpha1.EvidenceKubelet,
		Delays: configv1alpha1.Delays{ReleaseDelay: &metav1.Duration{Duration: time.Second}, GracePeriodSlack: &metav1.Duration{},
			SandboxCreationMax: &metav1.Duration{Duration: time.Second}},
		Server: configv1alpha1.Server{WebhookHost: "127.0.0.1", WebhookPort: new(int32(port)), CertDir: certificates(),
			MetricsBindAddress: "0", HealthProbeBindAddress: "0"},
		Controller: configv1alpha1.Controller{LeaderElection: new(false), SweepInterval: &metav1.Duration{Duration: time.Second}},
	}
	change(configuration)
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, app.Name, nil)
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	secondpass.Wrap(identity, secondpass.Leases(managerNamespace), secondpass.Events)
	mgr, err := secondpass.Start(func() (manager.Manager, error) {
		return app.New(running, identity, configuration, app.Options{Log: GinkgoLogr, LastRetry: secondpass.LastRetry(), PoliciesSince: judged.Always})
	})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		ended <- mgr.Start(running)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
	})
	DeferCleanup(stop)
	return port, stop
}

// selfSigned is made once: a certificate and its key.
var selfSigned = sync.OnceValues(func() ([2][]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	return [2][]byte{certificate, key}, err
})

func certificates() string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	pair, err := selfSigned()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), pair[0], 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "tls.key"), pair[1], 0o600)).To(Succeed())
	return dir
}

// installReleaseWebhooks registers the webhooks that judge removals as config/webhook has them, at a port of this machine, and
// waits until the API server asks them: about a reservation that a pool holds.
func installReleaseWebhooks(ctx context.Context, port int, refused *wbv1alpha1.OverlappingRangeIPReservation) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(repository, "config/webhook/release.yaml"))
	Expect(err).NotTo(HaveOccurred())
	webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(yaml.UnmarshalStrict(content, webhooks)).To(Succeed())
	pair, err := selfSigned()
	Expect(err).NotTo(HaveOccurred())
	for i := range webhooks.Webhooks {
		call := &webhooks.Webhooks[i].ClientConfig
		url := fmt.Sprintf("https://127.0.0.1:%d%s", port, *call.Service.Path)
		call.Service, call.URL, call.CABundle = nil, &url, pair[0]
		webhooks.Webhooks[i].TimeoutSeconds = new(int32(10)) // past it a removal passes
	}
	Expect(admin.Create(ctx, webhooks)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(admin.Delete(ctx, webhooks)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error { return admin.Delete(ctx, refused.DeepCopy(), client.DryRunAll) }).Should(Succeed())
	})
	Eventually(ctx, func(ctx context.Context) error { return admin.Delete(ctx, refused.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(ContainSubstring(string(v1alpha1.ReasonUnsafeReleaseRefused))))
}

// metric is the value of a metric of the manager with these values of its labels.
func metric(name string, labels ...string) func() float64 {
	return func() float64 {
		GinkgoHelper()
		families, err := ctrlmetrics.Registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			for _, m := range family.GetMetric() {
				var values []string
				for _, pair := range m.GetLabel() {
					values = append(values, pair.GetValue())
				}
				if family.GetName() == name && fmt.Sprint(values) == fmt.Sprint(labels) {
					return m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
		return 0
	}
}
