// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"
	"math"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	enforcerName = "admissionsenforcer"
	// enforcerInterval is how often the enforcer looks.
	enforcerInterval = 10 * time.Millisecond
	// freely is how many edits in a row are undone at once.
	freely = 3
)

// startEnforcer excludes namespaces from every webhook, each time that somebody includes them again, as the enforcer of AKS
// does where it is not told to stay away. The result ends it.
func startEnforcer(ctx context.Context) (stop func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(running, func(ctx context.Context) {
			c := &configuration{}
			if admin.Get(ctx, client.ObjectKey{Name: noderesource.ConfigurationName}, c) == nil && exclude(c) {
				_ = admin.Update(ctx, c, client.FieldOwner(enforcerName)) // after a conflict it looks again
			}
		}, enforcerInterval)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	DeferCleanup(stop)
	return stop
}

func exclude(c *configuration) (changed bool) {
	for i := range c.Webhooks {
		if selector := c.Webhooks[i].NamespaceSelector; len(selector.MatchExpressions) == 0 {
			selector.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "control-plane", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
				{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}},
			}
			changed = true
		}
	}
	return changed
}

var _ = Describe("Another writer that keeps changing the configuration", secondpass.Exempt("it counts the keeper's writes"), func() {
	var (
		seen     *writes
		s        setting
		restored = func() int { return len(seen.of("validatingwebhookconfigurations")) - 1 } // but for the first write
		included = func(ctx context.Context) func() bool {
			return func() bool { return len(entry(ctx, "alpha").NamespaceSelector.MatchExpressions) == 0 }
		}
	)
	BeforeEach(func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		seen, s = &writes{}, inCluster()
		s.transport = seen.wrap
	}, NodeTimeout(specTimeout))
	policies := func(ctx context.Context) {
		GinkgoHelper()
		createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		Expect(restored()).To(BeZero())
	}

	It("is told to stay away, where it listens", func(ctx context.Context) {
		startManager(ctx, s)
		policies(ctx)
		Expect(live(ctx).Labels).To(HaveKeyWithValue("admissions.enforcer/disabled", "true"))
	}, NodeTimeout(specTimeout))

	It("is answered ever more slowly, and named, until it has stopped for a while", func(ctx context.Context) {
		clock := clocktesting.NewFakePassiveClock(time.Now())
		s.options.Clock = clock
		startManager(ctx, s)
		policies(ctx)
		later := func(d time.Duration) {
			GinkgoHelper()
			clock.SetTime(clock.Now().Add(d))
			wake(ctx)
		}
		stop := startEnforcer(ctx)
		expectConditions(ctx, "alpha", isAccepted, isContested)
		Expect(condition(ctx, "alpha", v1alpha1.PolicyEnforced).Message).To(ContainSubstring(
			`another writer, field manager "admissionsenforcer", keeps changing namespaceSelector of webhook alpha.node-resource.holdfast.dev`))
		Consistently(restored).Should(Equal(freely))
		said := condition(ctx, "alpha", v1alpha1.PolicyEnforced)

		By("restoring again only after a pause, which doubles")
		later(time.Second)
		Eventually(restored).Should(Equal(freely + 1))
		Eventually(included(ctx)).Should(BeFalse())
		later(time.Second)
		Consistently(restored).Should(Equal(freely + 1))
		later(time.Second)
		Eventually(restored).Should(Equal(freely + 2))
		Eventually(included(ctx)).Should(BeFalse())
		Expect(condition(ctx, "alpha", v1alpha1.PolicyEnforced)).To(Equal(said), "the condition does not count")

		By("doing at once what a policy asks for")
		p := livePolicy(ctx, "alpha")
		Expect(admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeoutSeconds":3}}`)))).To(Succeed())
		Eventually(func() int32 { return *entry(ctx, "alpha").TimeoutSeconds }).Should(BeEquivalentTo(3))
		Eventually(included(ctx)).Should(BeFalse())

		By("restoring for good once the other has stopped, and believing it after a while")
		stop()
		later(4 * time.Second)
		Eventually(included(ctx)).Should(BeTrue())
		expectConditions(ctx, "alpha", isAccepted, isContested)
		later(time.Minute)
		Consistently(func() v1alpha1.Reason {
			return v1alpha1.Reason(condition(ctx, "alpha", v1alpha1.PolicyEnforced).Reason)
		}).Should(Equal(v1alpha1.ReasonWebhookContested))
		later(time.Minute)
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
	}, NodeTimeout(specTimeout))

	It("is answered with few writes, and the keeper wakes by itself for each", func(ctx context.Context) {
		startManager(ctx, s)
		policies(ctx)
		started := time.Now()
		stop := startEnforcer(ctx)
		Eventually(restored).Should(BeNumerically(">=", freely+2))
		few := freely + 1 + math.Log2(1+time.Since(started).Seconds())
		Expect(restored()).To(BeNumerically("<=", few))
		stop()
		Eventually(included(ctx)).Should(BeTrue())
	}, NodeTimeout(specTimeout))

	It("does not delay a manager that starts anew", func(ctx context.Context) {
		first := startManager(ctx, s)
		policies(ctx)
		stop := startEnforcer(ctx)
		expectConditions(ctx, "alpha", isAccepted, isContested)
		first()
		stop()
		Expect(included(ctx)()).To(BeFalse())
		startManager(ctx, inCluster())
		Eventually(included(ctx)).Should(BeTrue())
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
	}, NodeTimeout(specTimeout))
})

// wake changes something that the keeper watches.
func wake(ctx context.Context) {
	GinkgoHelper()
	patch := []byte(`{"metadata":{"annotations":{"woken":"` + time.Now().Format(time.RFC3339Nano) + `"}}}`)
	Expect(admin.Patch(ctx, stampConfiguration(nil), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}
