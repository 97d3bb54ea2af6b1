// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	foreignRemovals = "holdfast-foreign-removals"
	noTaking        = "are taken away by Holdfast and by the nodes' CNI DEL alone"
)

// decoded is the object of a name in a file of the repository.
func decoded[T client.Object](path, name string) T {
	GinkgoHelper()
	content, err := os.ReadFile(fixture.Path(path))
	Expect(err).NotTo(HaveOccurred())
	return fixture.Find[T](fixture.Decode(content), name)
}

// poolOf has n entries of pods, each with a name of that length.
func poolOf(ctx context.Context, name string, n, length int) *wbv1alpha1.IPPool {
	GinkgoHelper()
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
		Spec: wbv1alpha1.IPPoolSpec{Range: "10.0.0.0/8", Allocations: map[string]wbv1alpha1.IPAllocation{}}}
	for i := range n {
		pool.Spec.Allocations[fmt.Sprint(i+1)] = wbv1alpha1.IPAllocation{PodRef: fmt.Sprintf("a/%0*d", length, i)}
	}
	// The API server bounds a request to 34 s, which is short for its bookkeeping of 40,000 fields on a busy machine.
	Eventually(ctx, func() error { return client.IgnoreAlreadyExists(admin.Create(ctx, pool.DeepCopy())) }).WithTimeout(startTimeout).Should(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(theManager.Delete(ctx, pool))).To(Succeed())
	}, NodeTimeout(soon))
	return pool
}

var _ = suite.Describe("A removal from a pool of whereabouts", Ordered, func() {
	var reviews atomic.Int64
	BeforeAll(func(ctx context.Context) {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			review := admissionv1.AdmissionReview{}
			content, err := io.ReadAll(r.Body)
			if err != nil || json.Unmarshal(content, &review) != nil {
				http.Error(w, "no review", http.StatusBadRequest)
				return
			}
			reviews.Add(1)
			review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "the webhook was asked", Code: http.StatusForbidden}}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(&review) // a client that went away needs none
		}))
		DeferCleanup(server.Close)
		configuration := decoded[*admissionregistrationv1.ValidatingWebhookConfiguration]("config/webhook/release.yaml", "holdfast-release")
		for i := range configuration.Webhooks {
			// What is tried is the condition: a busy machine may take longer for the call than the product waits.
			configuration.Webhooks[i].TimeoutSeconds = new(int32(30))
			configuration.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(server.URL + "/"),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
		}
		Expect(admin.Create(ctx, configuration)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, configuration)).To(Succeed()) }, NodeTimeout(soon))
		probe := poolOf(ctx, "probe", 1, 1)
		Eventually(ctx, func() error { return without(ctx, user, probe, "1") }).Should(MatchError(ContainSubstring("the webhook was asked")))
	}, NodeTimeout(soon))

	for what, size := range map[string]struct{ entries, length int }{
		"with 40,000 entries":                     {40_000, 1},
		"with 5,000 entries of long names":        {5_000, 200},
		"with one entry more than the comparison": {5_001, 60},
	} {
		It("meets the webhook every time, as large as the pool may be: "+what, func(ctx context.Context) {
			pool := poolOf(ctx, fmt.Sprintf("pool-%d-%d", size.entries, size.length), size.entries, size.length)
			if size.entries > 5_000 {
				By("a write that leaves every entry, for which the comparison would cost the most")
				Expect(addition(ctx, user, pool, "1000000")).To(MatchError(ContainSubstring("the webhook was asked")))
			}
			for i := range 2 {
				before := reviews.Load()
				Expect(without(ctx, user, pool, fmt.Sprint(i*400+1))).To(MatchError(ContainSubstring("the webhook was asked")), "try %d", i)
				Expect(reviews.Load()).To(Equal(before + 1))
			}
		}, SpecTimeout(startTimeout))
	}

	It("does not meet the webhook where it is an addition, in the largest pool that is compared", func(ctx context.Context) {
		pool := poolOf(ctx, "pool-of-additions", 5_000, 200)
		before := reviews.Load()
		for i := range 3 {
			Expect(addition(ctx, user, pool, fmt.Sprint(100_000+i))).To(Succeed())
		}
		Expect(reviews.Load()).To(Equal(before))
	}, SpecTimeout(2*soon))
})

// without tries to take an entry out of a pool.
func without(ctx context.Context, c client.Client, pool *wbv1alpha1.IPPool, offset string) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"allocations":{%q:null}}}`, offset))
	return c.Patch(ctx, &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}}, patch, client.DryRunAll)
}

func addition(ctx context.Context, c client.Client, pool *wbv1alpha1.IPPool, offset string) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"allocations":{%q:{"id":"x","podref":"a/b"}}}}`, offset))
	return c.Patch(ctx, &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}}, patch, client.DryRunAll)
}

var _ = suite.Describe("With the component refuse-foreign-removals, a removal while no replica responds", Ordered, func() {
	var pool *wbv1alpha1.IPPool
	var reservation *wbv1alpha1.OverlappingRangeIPReservation
	BeforeAll(func(ctx context.Context) {
		const file = "config/components/refuse-foreign-removals/policy.yaml"
		policy := decoded[*admissionregistrationv1.ValidatingAdmissionPolicy](file, "holdfast-foreign-removals")
		binding := decoded[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](file, "holdfast-foreign-removals")
		webhooks := decoded[*admissionregistrationv1.ValidatingWebhookConfiguration]("config/webhook/release.yaml", "holdfast-release").Webhooks
		for condition, prefix := range map[int]string{1: `request.resource.resource != "ippools" || `, 2: `request.resource.resource == "ippools" || `} {
			Expect(strings.Fields(policy.Spec.MatchConditions[condition].Expression)).To(
				Equal(strings.Fields(prefix+webhooks[condition-1].MatchConditions[1].Expression)), "the conditions of the webhook and of the policy are one")
		}
		pool = poolOf(ctx, "pool", 3, 1)
		reservation = &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "10.0.0.1"},
			Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: "a/0"}}
		Expect(admin.Create(ctx, reservation)).To(Succeed())
		for _, object := range []client.Object{policy, binding} {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		DeferCleanup(func(ctx context.Context) {
			Expect(admin.Delete(ctx, binding)).To(Succeed())
			Expect(admin.Delete(ctx, policy)).To(Succeed())
			Eventually(ctx, func(ctx context.Context) error { return without(ctx, user, pool, "1") }).Should(Succeed())
			Expect(admin.Delete(ctx, reservation)).To(Succeed())
		}, NodeTimeout(soon))
		Eventually(ctx, func() error { return without(ctx, user, pool, "1") }).Should(outcome(foreignRemovals, noTaking))
	}, NodeTimeout(soon))

	actors := map[string]struct {
		account account
		refusal string
	}{
		"CNI DEL, by whereabouts' token of a node":   {func() client.Client { return whereabouts }, allowed},
		"whereabouts' account, by a token of no pod": {func() client.Client { return whereaboutsUnbound }, noTaking},
		"a cluster administrator":                    {func() client.Client { return user }, noTaking},
		"the manager":                                {func() client.Client { return manager }, allowed},
	}
	for who, actor := range actors {
		It("is judged by who writes: "+who, func(ctx context.Context) {
			Expect(without(ctx, actor.account(), pool, "1")).To(outcome(foreignRemovals, actor.refusal))
			Expect(actor.account().Delete(ctx, reservation.DeepCopy(), client.DryRunAll)).To(outcome(foreignRemovals, actor.refusal))
			Expect(addition(ctx, actor.account(), pool, "9")).To(Succeed())
		}, SpecTimeout(soon))
		It("is judged by who writes where an update deletes the object: "+who, func(ctx context.Context) {
			for _, object := range []client.Object{&wbv1alpha1.IPPool{Spec: pool.Spec}, &wbv1alpha1.OverlappingRangeIPReservation{Spec: reservation.Spec}} {
				object.SetNamespace(metav1.NamespaceSystem)
				object.SetGenerateName("deleted-")
				object.SetFinalizers([]string{"example.com/hold"})
				Expect(admin.Create(ctx, object)).To(Succeed())
				Expect(theManager.Delete(ctx, object)).To(Succeed())
				noFinalizer := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				Expect(actor.account().Patch(ctx, object, noFinalizer, client.DryRunAll)).To(outcome(foreignRemovals, actor.refusal))
				Expect(theManager.Patch(ctx, object, noFinalizer)).To(Succeed())
			}
		}, SpecTimeout(soon))
	}
})
