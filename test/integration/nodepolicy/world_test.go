// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// leaseDuration is short, so that a lost Lease is soon another's.
const leaseDuration = 3 * time.Second

// anotherAuthority is what condition Enforced says of an entry that has another authority than the stamping webhook.
const anotherAuthority = "its caBundle is not that of MutatingWebhookConfiguration holdfast-stamp"

// certificate is the one whose authority the injector writes in an installation.
var certificate = types.NamespacedName{Namespace: managerNamespace, Name: "holdfast-webhook"}

// setting changes what a manager is started with.
type setting struct {
	options   noderesource.Options
	transport func(http.RoundTripper) http.RoundTripper
	// elected says that only the holder of the Lease works, as in the installation.
	elected bool
}

// inCluster is how the installation sets the controllers up: behind a Service, with cert-manager.
func inCluster() setting {
	return setting{options: noderesource.Options{
		Target: nodepolicy.Target{Service: &admissionregistrationv1.ServiceReference{
			Namespace: managerNamespace, Name: "holdfast-webhook", Port: new(int32(443))}},
		Certificate:   certificate,
		SweepInterval: startTimeout, DeletesPerSecond: 1, NodeGoneDelay: startTimeout,
	}}
}

// startManager runs the controllers of node-scoped resources alone, under the manager's identity; the result ends them.
func startManager(ctx context.Context, s setting) (stop func()) {
	GinkgoHelper()
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
	Expect(err).NotTo(HaveOccurred())
	secondpass.Wrap(identity, secondpass.Leases(managerNamespace))
	if s.transport != nil {
		identity.Wrap(s.transport)
	}
	options := manager.Options{
		Scheme:                 scheme,
		Logger:                 GinkgoLogr,
		Cache:                  cache.Options{ByObject: noderesource.CacheByObject(), DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             ctrlconfig.Controller{SkipNameValidation: new(true)},
	}
	if s.elected {
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, managerAccount, managerNamespace
		options.LeaderElectionReleaseOnCancel = true
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = new(leaseDuration), new(leaseDuration*2/3), new(leaseDuration/10)
	}
	s.options.LastRetry = secondpass.LastRetry()
	mgr, err := secondpass.Start(func() (manager.Manager, error) { return manager.New(identity, options) })
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	Expect(noderesource.Setup(running, mgr, s.options)).To(Succeed())
	ended := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		ended <- mgr.Start(running)
	}()
	stop = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Eventually(ended).Should(Receive())
	})
	DeferCleanup(stop)
	return stop
}

// policy guards the gadgets; the changes say what else.
func policy(name string, changes ...func(*v1alpha1.NodeResourcePolicySpec)) *v1alpha1.NodeResourcePolicy {
	p := &v1alpha1.NodeResourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NodeResourcePolicySpec{Resource: v1alpha1.GuardedResource{Group: guardedGroup, Resource: "gadgets"}},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func resource(name string, versions ...string) func(*v1alpha1.NodeResourcePolicySpec) {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.Resource.Resource, s.Resource.Versions = name, versions }
}

func nodeNameIs(expression string) func(*v1alpha1.NodeResourcePolicySpec) {
	return func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.Expression, s.Resource.Versions = expression, []string{"v1"}
	}
}

func failing(s *v1alpha1.NodeResourcePolicySpec) { s.FailurePolicy = v1alpha1.PolicyFail }

func createPolicy(ctx context.Context, p *v1alpha1.NodeResourcePolicy) *v1alpha1.NodeResourcePolicy {
	GinkgoHelper()
	Expect(admin.Create(ctx, p)).To(Succeed())
	return p
}

// changePolicy changes a specification, which others may write the status of meanwhile.
func changePolicy(ctx context.Context, name string, change func(*v1alpha1.NodeResourcePolicySpec)) {
	GinkgoHelper()
	Eventually(func() error {
		p := livePolicy(ctx, name)
		change(&p.Spec)
		return admin.Update(ctx, p)
	}).Should(Succeed())
}

// brief is what a test says of a condition.
type brief struct {
	Status metav1.ConditionStatus
	Reason v1alpha1.Reason
}

var (
	isAccepted  = brief{metav1.ConditionTrue, v1alpha1.ReasonPolicyAccepted}
	isEnforced  = brief{metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured}
	isAwaiting  = brief{metav1.ConditionFalse, v1alpha1.ReasonAwaitingCABundle}
	notAccepted = brief{metav1.ConditionFalse, v1alpha1.ReasonPolicyNotAccepted}
	notServed   = brief{metav1.ConditionFalse, v1alpha1.ReasonResourceNotServed}
	isWaiting   = brief{metav1.ConditionTrue, v1alpha1.ReasonResourceNotServed}
	isRejected  = brief{metav1.ConditionFalse, v1alpha1.ReasonWebhookRejected}
	isContested = brief{metav1.ConditionFalse, v1alpha1.ReasonWebhookContested}
	isDisabled  = brief{metav1.ConditionFalse, v1alpha1.ReasonGuardDisabled}
)

func livePolicy(ctx context.Context, name string) *v1alpha1.NodeResourcePolicy {
	GinkgoHelper()
	p := &v1alpha1.NodeResourcePolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
	return p
}

// condition is that of a policy, as the keeper saw its present generation; empty if it has not seen it yet.
func condition(ctx context.Context, name, kind string) metav1.Condition {
	GinkgoHelper()
	p := livePolicy(ctx, name)
	if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.ObservedGeneration == p.Generation {
		return *c
	}
	return metav1.Condition{}
}

// expectConditions waits until the keeper has said this of a policy, and gives back the message of Accepted.
func expectConditions(ctx context.Context, name string, accepted, enforced brief) string {
	GinkgoHelper()
	Eventually(func() [2]brief {
		a, e := condition(ctx, name, v1alpha1.PolicyAccepted), condition(ctx, name, v1alpha1.PolicyEnforced)
		return [2]brief{{a.Status, v1alpha1.Reason(a.Reason)}, {e.Status, v1alpha1.Reason(e.Reason)}}
	}).Should(Equal([2]brief{accepted, enforced}), "%s: %+v", name, livePolicy(ctx, name).Status.Conditions)
	return condition(ctx, name, v1alpha1.PolicyAccepted).Message
}

type configuration = admissionregistrationv1.ValidatingWebhookConfiguration

// live is the generated configuration; nil if there is none.
func live(ctx context.Context) *configuration {
	GinkgoHelper()
	c := &configuration{}
	err := admin.Get(ctx, client.ObjectKey{Name: noderesource.ConfigurationName}, c)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return c
}

// entries are the names of the policies that have an entry, in its order.
func entries(ctx context.Context) []string {
	GinkgoHelper()
	c := live(ctx)
	if c == nil {
		return nil
	}
	names := make([]string, 0, len(c.Webhooks))
	for i := range c.Webhooks {
		names = append(names, strings.TrimSuffix(c.Webhooks[i].Name, nodepolicy.EntryName("")))
	}
	return names
}

func eventuallyEntries(ctx context.Context, names ...string) {
	GinkgoHelper()
	Eventually(func() []string { return entries(ctx) }).Should(HaveExactElements(names))
}

// entry is the entry of a policy.
func entry(ctx context.Context, name string) *admissionregistrationv1.ValidatingWebhook {
	GinkgoHelper()
	if c := live(ctx); c != nil {
		for i := range c.Webhooks {
			if c.Webhooks[i].Name == nodepolicy.EntryName(name) {
				return &c.Webhooks[i]
			}
		}
	}
	return nil
}

// edit changes the configuration as an administrator does.
func edit(ctx context.Context, change func(*configuration)) {
	GinkgoHelper()
	Eventually(func() error {
		c := live(ctx)
		change(c)
		return admin.Update(ctx, c, client.FieldOwner("kubectl-edit"))
	}).Should(Succeed())
}

// inject writes an authority into every entry, as cert-manager's injector does.
func inject(ctx context.Context, ca []byte) {
	GinkgoHelper()
	edit(ctx, func(c *configuration) {
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = ca
		}
	})
}

// rotate writes another authority into the configuration of the stamping webhook.
func rotate(ctx context.Context) []byte {
	GinkgoHelper()
	ca := authority()
	stamp := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: noderesource.StampConfigurationName}, stamp)).To(Succeed())
	stamp.Webhooks[0].ClientConfig.CABundle = ca
	Expect(admin.Update(ctx, stamp)).To(Succeed())
	return ca
}

// authority is a new certificate.
func authority() []byte {
	GinkgoHelper()
	ca, _, err := cert.GenerateSelfSignedCertKey("holdfast-webhook", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	return ca
}

// stampConfiguration is the one of the installation, with an authority or not yet.
func stampConfiguration(ca []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: noderesource.StampConfigurationName},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "stamp.holdfast.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy: new(admissionregistrationv1.Ignore),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: ca,
				Service: &admissionregistrationv1.ServiceReference{Namespace: managerNamespace, Name: "holdfast-webhook", Path: new("/mutate-pods")}},
		}},
	}
}

// newGadget is an object of the guarded resource.
func newGadget() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(guardedGroup + "/v1")
	object.SetKind("Gadget")
	object.SetGenerateName("node-")
	return object
}

// metric is the value of a series without a label, or with one of this value.
func metric(name, label string) float64 {
	GinkgoHelper()
	families, err := ctrlmetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if labels := series.GetLabel(); family.GetName() == name && (len(labels) == 0 || labels[0].GetValue() == label) {
				return series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// writes are what the keeper writes to the API server, one line each.
type writes struct {
	mu    sync.Mutex
	lines []string
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		if query.Get("fieldManager") == noderesource.KeeperFieldManager || (request.Method == http.MethodDelete) {
			w.mu.Lock()
			w.lines = append(w.lines, strings.TrimSpace(request.Method+" "+request.URL.Path+" "+query.Get("dryRun")))
			w.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

func (w *writes) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.lines...)
}

// quiet is the number of writes so far. In the second pass, what failed of them is written again first: quiet waits until nothing is,
// for much longer than the longest back-off.
func (w *writes) quiet() int {
	GinkgoHelper()
	if secondpass.On() {
		Eventually(func(g Gomega) {
			before := len(w.seen())
			g.Consistently(w.seen).Should(HaveLen(before))
		}).Should(Succeed())
	}
	return len(w.seen())
}

// of are those of a resource.
func (w *writes) of(resource string) []string {
	return slices.DeleteFunc(w.seen(), func(line string) bool { return !strings.Contains(line, "/"+resource+"/") })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
