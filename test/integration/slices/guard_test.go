// SPDX-License-Identifier: Apache-2.0

package slices_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	managerNamespace = "holdfast-system"
	webhookName      = "nodeslicepool.slices.holdfast.dev"
)

// guard is a manager in this process, under its own identity, and the webhook as it is installed.
type guard struct {
	// poolsFail makes every read of an IPPool by name fail.
	poolsFail atomic.Bool
}

// startGuard starts everything; it is gone at the end of the spec.
func startGuard(ctx context.Context) *guard {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	g := &guard{}
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, app.Name, nil)
	Expect(err).NotTo(HaveOccurred())
	failing := &faults.Faults{Choose: func(c faults.Call) faults.Kind {
		if g.poolsFail.Load() && c.Verb == "get" && c.Resource.Resource == "ippools" {
			return faults.InternalError
		}
		return faults.None
	}}
	identity.Wrap(failing.Wrap)
	secondpass.Wrap(identity, secondpass.Leases(managerNamespace), secondpass.LiveReads)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	mgr, err := secondpass.Start(func() (manager.Manager, error) {
		return app.New(running, identity, configuration(port), app.Options{Log: GinkgoLogr, LastRetry: secondpass.LastRetry()})
	})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		ended <- mgr.Start(running)
	}()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
	})
	installWebhook(ctx, port)
	return g
}

func configuration(port int) *configv1alpha1.ManagerConfiguration {
	GinkgoHelper()
	return &configv1alpha1.ManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "config.holdfast.dev/v1alpha1", Kind: "ManagerConfiguration"},
		Evidence: configv1alpha1.EvidenceKubelet,
		Server: configv1alpha1.Server{WebhookHost: "127.0.0.1", WebhookPort: new(int32(port)), CertDir: certificates(),
			MetricsBindAddress: "0", HealthProbeBindAddress: "0"},
		Controller: configv1alpha1.Controller{LeaderElection: new(false)},
	}
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

// installWebhook registers the webhook as config/webhook has it, at a port of this machine, and waits until the API server
// calls it.
func installWebhook(ctx context.Context, port int) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(repository, "config/webhook/slices.yaml"))
	Expect(err).NotTo(HaveOccurred())
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(yaml.UnmarshalStrict(content, webhook)).To(Succeed())
	pair, err := selfSigned()
	Expect(err).NotTo(HaveOccurred())
	for i := range webhook.Webhooks {
		call := &webhook.Webhooks[i].ClientConfig
		url := fmt.Sprintf("https://127.0.0.1:%d%s", port, *call.Service.Path)
		call.Service, call.URL, call.CABundle = nil, &url, pair[0]
	}
	// An object of a namespace that the manager does not look after: whatever is done to it, no slice is kept or cleared.
	probe := &wbv1alpha1.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"},
		Spec:   wbv1alpha1.NodeSlicePoolSpec{Range: "192.0.2.0/24", SliceSize: "/24"},
		Status: wbv1alpha1.NodeSlicePoolStatus{Allocations: []wbv1alpha1.NodeSliceAllocation{{NodeName: "probe", SliceRange: "192.0.2.0/24"}}}}
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, probe.DeepCopy()))).To(Succeed())
	called := func(ctx context.Context) bool {
		GinkgoHelper()
		before := calls(ctx)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(probe), probe)).To(Succeed())
		probe.Status.Allocations[0].NodeName = ""
		Expect(admin.Update(ctx, probe, client.DryRunAll)).To(Succeed())
		return calls(ctx) > before
	}
	Expect(admin.Create(ctx, webhook)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(admin.Delete(ctx, webhook)).To(Succeed())
		Eventually(ctx, called).WithArguments(ctx).Should(BeFalse())
	})
	Eventually(ctx, called).WithArguments(ctx).Should(BeTrue())
}

var (
	requests        = regexp.MustCompile(`^apiserver_admission_webhook_request_total\{.*name="` + webhookName + `".*\} ([0-9.e+]+)$`)
	conditionErrors = regexp.MustCompile(`^apiserver_admission_match_condition_evaluation_errors_total\{.*name="` + webhookName + `".*\} ([0-9.e+]+)$`)
)

// calls is how often the API server called the webhook, whatever came of it.
func calls(ctx context.Context) int {
	GinkgoHelper()
	return count(ctx, requests)
}

func count(ctx context.Context, counter *regexp.Regexp) int {
	GinkgoHelper()
	clientset, err := kubernetes.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	metrics, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	sum := 0
	for line := range strings.Lines(string(metrics)) {
		if match := counter.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			value, err := strconv.ParseFloat(match[1], 64)
			Expect(err).NotTo(HaveOccurred())
			sum += int(value)
		}
	}
	return sum
}

// gauge is a metric of the manager without labels.
func gauge(name string) float64 {
	GinkgoHelper()
	families, err := ctrlmetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	Fail("no metric " + name)
	return 0
}
