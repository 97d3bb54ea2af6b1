// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/shadow"
	"github.com/holdfast-dev/holdfast/internal/testing/calls"
	"github.com/holdfast-dev/holdfast/internal/testing/judged"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// installation is one manager after the other, behind webhooks that stay registered.
type installation struct {
	webhookPort, healthPort int
	// stop ends the manager that runs.
	stop func()
	// made are the writes of the manager that runs, as they left the process: "verb group/resource namespace/name".
	made *writes
}

func newInstallation(ctx context.Context) *installation {
	GinkgoHelper()
	i := &installation{webhookPort: fixture.FreePort(), healthPort: fixture.FreePort(), stop: func() {}}
	i.register(ctx, "protect.yaml", &admissionregistrationv1.MutatingWebhookConfiguration{})
	i.register(ctx, "slices.yaml", &admissionregistrationv1.MutatingWebhookConfiguration{})
	i.register(ctx, "release.yaml", &admissionregistrationv1.ValidatingWebhookConfiguration{})
	DeferCleanup(func(ctx context.Context) { i.stop() })
	return i
}

// register installs webhooks as config/webhook has them, at this machine. They fail closed, so that each write that succeeds was allowed.
func (i *installation) register(ctx context.Context, file string, object client.Object) {
	GinkgoHelper()
	content, err := os.ReadFile(fixture.Path("config/webhook", file))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(content, object)).To(Succeed())
	var calls []*admissionregistrationv1.WebhookClientConfig
	var policies []**admissionregistrationv1.FailurePolicyType
	switch configuration := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for n := range configuration.Webhooks {
			calls, policies = append(calls, &configuration.Webhooks[n].ClientConfig), append(policies, &configuration.Webhooks[n].FailurePolicy)
			configuration.Webhooks[n].TimeoutSeconds = new(int32(10))
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for n := range configuration.Webhooks {
			calls, policies = append(calls, &configuration.Webhooks[n].ClientConfig), append(policies, &configuration.Webhooks[n].FailurePolicy)
			configuration.Webhooks[n].TimeoutSeconds = new(int32(10))
		}
	}
	pair, err := selfSigned()
	Expect(err).NotTo(HaveOccurred())
	for n, call := range calls {
		call.URL = new(fmt.Sprintf("https://127.0.0.1:%d%s", i.webhookPort, *call.Service.Path))
		call.Service, call.CABundle = nil, pair[0]
		*policies[n] = new(admissionregistrationv1.Fail)
	}
	Expect(admin.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, object)).To(Succeed()) })
}

// run starts a manager in a mode, with every denial, repair and deletion enabled, and waits until it is ready.
func (i *installation) run(ctx context.Context, mode configv1alpha1.Mode) {
	GinkgoHelper()
	i.stop()
	identity := fixture.AccountConfig(ctx, managerNamespace, app.Name, nil)
	i.made = &writes{}
	identity.Wrap(i.made.wrap)
	i.stop = fixture.RunManager(ctx, func(running context.Context) (manager.Manager, error) {
		return app.New(running, identity, i.configuration(mode), app.Options{Log: GinkgoLogr, LastRetry: time.Second, PoliciesSince: judged.Always})
	})
	Eventually(i.readiness).WithContext(ctx).Should(HaveHTTPStatus(http.StatusOK))
}

func (i *installation) configuration(mode configv1alpha1.Mode) *configv1alpha1.ManagerConfiguration {
	GinkgoHelper()
	return &configv1alpha1.ManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "config.holdfast.dev/v1alpha1", Kind: "ManagerConfiguration"},
		Mode:     mode,
		Evidence: configv1alpha1.EvidenceAgent,
		Delays: configv1alpha1.Delays{ReleaseDelay: &metav1.Duration{Duration: time.Second}, GracePeriodSlack: &metav1.Duration{},
			SandboxCreationMax: &metav1.Duration{Duration: sandboxCreationMax}, NodeGoneDelay: &metav1.Duration{Duration: time.Second}},
		UnsafeReleases: configv1alpha1.UnsafeReleases{Mode: configv1alpha1.ReleaseModeDeny},
		Audit:          configv1alpha1.Audit{Mode: configv1alpha1.AuditModeRepair},
		NodeResources:  configv1alpha1.NodeResources{SweepInterval: &metav1.Duration{Duration: time.Second}},
		Server: configv1alpha1.Server{WebhookHost: "127.0.0.1", WebhookPort: new(int32(i.webhookPort)), CertDir: certificates(),
			WebhookURL: fmt.Sprintf("https://127.0.0.1:%d", i.webhookPort), MetricsBindAddress: "0",
			HealthProbeBindAddress: fmt.Sprintf("127.0.0.1:%d", i.healthPort)},
		Controller: configv1alpha1.Controller{LeaderElection: new(true), SweepInterval: &metav1.Duration{Duration: time.Second}},
	}
}

// readiness is what the manager's probe says, with every check.
func (i *installation) readiness(ctx context.Context) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz?verbose", i.healthPort), nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// writes keeps every call of a process that is no read.
type writes struct {
	mu    sync.Mutex
	calls []calls.Call
	// queries are how many of them wrote a query to agents.
	queries int
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return fixture.RoundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			call, queries := calls.Of(request), queriesAgents(request)
			w.mu.Lock()
			w.calls = append(w.calls, call)
			if queries {
				w.queries++
			}
			w.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// queriesAgents says whether a request writes a query to the agent of one node, or of all. A request for the status of either carries the queries
// and changes none.
func queriesAgents(request *http.Request) bool {
	call := calls.Of(request)
	if request.Body == nil || call.Subresource != "" || (call.Resource.Resource != "guardednodes" && call.Resource.Resource != "allnodesqueries") {
		return false
	}
	content, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(content))
	return err == nil && bytes.Contains(content, []byte(`"queries":[{`))
}

// queried is how many writes contained a query.
func (w *writes) queried() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queries
}

// beside are the writes that are not what a shadow reports in or is run with: its own objects, events, its Lease, the list of Nodes ever
// seen, and the webhooks of the policies.
func (w *writes) beside() []calls.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(c calls.Call) bool {
		switch c.Resource.Group {
		case "holdfast.dev", "events.k8s.io":
			return true
		case "coordination.k8s.io":
			return c.Resource.Resource == "leases" && c.Namespace == managerNamespace
		case "":
			return c.Resource.Resource == "events" // of leader election
		case "admissionregistration.k8s.io":
			return c.Resource.Resource == "validatingwebhookconfigurations" && c.Name == "holdfast-node-resources"
		}
		return false
	})
}

// all are the writes that were made at all.
func (w *writes) all() []calls.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// ofRecords are the writes of records.
func (w *writes) ofRecords() []calls.Call {
	return slices.DeleteFunc(w.all(), func(c calls.Call) bool { return c.Resource.Resource != "ipallocations" })
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

// reported is how often the managers of this process have reported an action. Metrics outlive a manager.
func reported(action shadow.Action) func() float64 {
	return func() float64 { return metric("holdfast_shadow_total", string(action)) }
}

// metric is the sum of the series that have all of these values of labels.
func metric(name string, values ...string) float64 {
	GinkgoHelper()
	return series.Sum(GinkgoTB(), name, values...)
}
