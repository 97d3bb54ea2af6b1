// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// staying is for how long a replica that must not end is watched.
const staying = 5 * time.Second

var _ = Describe("The CustomResourceDefinition of NodeResourcePolicies", Ordered, func() {
	BeforeAll(func(ctx context.Context) { apply(ctx, render("config/default")) })
	AfterAll(func(ctx context.Context) { apply(ctx, render("config/default")) })

	remove := func(ctx context.Context) {
		GinkgoHelper()
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "noderesourcepolicies.holdfast.dev"}}
		Expect(admin.Delete(ctx, definition)).To(Succeed())
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(definition), definition) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}
	serves := func(ctx context.Context, r *replica) {
		GinkgoHelper()
		Eventually(ctx, func() int { return r.status(ctx, "/readyz") }).Should(Equal(http.StatusOK))
		Eventually(ctx, func() string { return leader(ctx) }).WithTimeout(leaderSoon).ShouldNot(BeEmpty())
		Consistently(ctx, func() int { return r.status(ctx, "/readyz") }).WithTimeout(staying).Should(Equal(http.StatusOK))
	}
	accepted := func(ctx context.Context, name string) {
		GinkgoHelper()
		Eventually(ctx, func(g Gomega) {
			policy := &v1alpha1.NodeResourcePolicy{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, policy)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.PolicyAccepted)).To(BeTrue())
		}).WithTimeout(leaderSoon).Should(Succeed())
	}
	create := func(ctx context.Context, name string) {
		GinkgoHelper()
		Eventually(ctx, func() error { // a resource that is new is served after a while
			return admin.Create(ctx, &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeResourcePolicySpec{
				Resource: v1alpha1.GuardedResource{Group: "k8s.cni.cncf.io", Resource: "network-attachment-definitions"}}})
		}).Should(Succeed())
	}

	It("may be removed, and come back, while a manager runs", func(ctx context.Context) {
		r := startReplica(ctx, true)
		serves(ctx, r)
		create(ctx, "before")
		accepted(ctx, "before")
		remove(ctx)
		serves(ctx, r)
		apply(ctx, render("config/default"))
		create(ctx, "after")
		accepted(ctx, "after")
		r.stop()
	})

	It("may be missing when a manager starts, which says so and does everything else", func(ctx context.Context) {
		remove(ctx)
		r := startReplica(ctx, true)
		Expect(r.logged("Apply config/crd and restart the manager")).To(HaveLen(1))
		serves(ctx, r)
		r.stop()

		apply(ctx, render("config/default"))
		r = startReplica(ctx, true)
		Expect(r.logged("Apply config/crd")).To(BeEmpty())
		create(ctx, "later")
		accepted(ctx, "later")
	})
})
