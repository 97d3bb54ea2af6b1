// SPDX-License-Identifier: Apache-2.0

// Package policies shows on a real API server what the policies of config/policies let each account write: the tokens are those
// that the API server issues for pods bound to nodes.
package policies

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	soon = fixture.Soon
	// startTimeout bounds what makes the largest pools.
	startTimeout = 5 * time.Minute
)

var plane, admin = fixture.Plane, fixture.Admin

var suite = fixture.NewSuite("policies", fixture.PlaneOne, func(ctx context.Context) {
	fixture.Apply(ctx, fixture.Installation().Objects(notHere...))
	createWorld(ctx)
	awaitPolicies(ctx)
})

// notHere are the kinds of an installation without which the accounts and the policies are complete: nothing of ours runs in a pod,
// and no webhook is called.
var notHere = []string{"CustomResourceDefinition", "ServiceMonitor", "Deployment", "DaemonSet", "PodDisruptionBudget", "Service", "Certificate", "Issuer",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

var _ = suite.Describe("The policies", func() {
	It("have expressions that fit the types that they are about", func(ctx context.Context) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &policies)).To(Succeed())
			g.Expect(policies.Items).To(HaveLen(len(reportpolicy.Installed)))
			for i := range policies.Items {
				g.Expect(policies.Items[i].Status.ObservedGeneration).To(Equal(policies.Items[i].Generation))
			}
		}).Should(Succeed())
		for i := range policies.Items {
			Expect(policies.Items[i].Status.TypeChecking).NotTo(BeNil(), policies.Items[i].Name)
			Expect(policies.Items[i].Status.TypeChecking.ExpressionWarnings).To(BeEmpty(), policies.Items[i].Name)
		}
	}, SpecTimeout(soon))

	It("stand beside a priority level of the manager's own", func(ctx context.Context) {
		var flow flowcontrolv1.FlowSchema
		Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-manager"}, &flow)).To(Succeed())
		calls, err := rest.HTTPClientFor(fixture.AccountConfig(ctx, managerNamespace, managerAccount, nil))
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega) { // the API server reads flow schemas from a watch
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, plane.Config().Host+"/apis/holdfast.dev/v1alpha1/ipallocations?limit=1", nil)
			g.Expect(err).NotTo(HaveOccurred())
			response, err := calls.Do(request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)).To(Equal(string(flow.UID)))
		}).Should(Succeed())
	}, SpecTimeout(soon))

	It("know the manager by the name that kustomize gives its account", func() {
		folder := filepath.Join(GinkgoT().TempDir(), "config")
		Expect(os.CopyFS(folder, os.DirFS(fixture.Path("config")))).To(Succeed())
		path := filepath.Join(folder, "default", "kustomization.yaml")
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(path, append([]byte("namePrefix: other-\n"), content...), 0o600)).To(Succeed())
		named, subject := 0, ""
		for _, object := range fixture.Decode([]byte(fixture.Run(fixture.Tool("kustomize"), "build", filepath.Dir(path)))) {
			if object.GetKind() == "FlowSchema" {
				flow := &flowcontrolv1.FlowSchema{}
				Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, flow, true)).To(Succeed())
				subject = flow.Spec.Rules[0].Subjects[0].ServiceAccount.Name
			}
			if object.GetKind() != "ValidatingAdmissionPolicy" {
				continue
			}
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, policy, true)).To(Succeed())
			for _, condition := range policy.Spec.MatchConditions {
				if strings.Contains(condition.Expression, managerNamespace) {
					named++
					Expect(condition.Expression).To(MatchRegexp(
						`^request.userInfo.username [!=]= \["system:serviceaccount", "holdfast-system", "other-holdfast-manager"\].join\(":"\)$`), policy.Name)
				}
			}
		}
		Expect(named).To(Equal(6))
		Expect(subject).To(Equal("other-holdfast-manager"))
	})

	It("are each bound to everything, and deny", func(ctx context.Context) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		Expect(admin.List(ctx, &policies)).To(Succeed())
		var names []string
		for i := range policies.Items {
			names = append(names, policies.Items[i].Name)
			var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(&policies.Items[i]), &binding)).To(Succeed())
			Expect(binding.Spec.MatchResources).To(BeNil(), binding.Name)
			Expect(binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny), binding.Name)
		}
		Expect(names).To(ConsistOf(reportpolicy.Installed))
		var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
		Expect(admin.List(ctx, &bindings)).To(Succeed())
		Expect(reportpolicy.Evidence(policies.Items, bindings.Items).Problem).To(BeEmpty())
	}, SpecTimeout(soon))
})
