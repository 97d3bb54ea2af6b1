// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// theDaemonSet is the account of whereabouts' DaemonSet, under which CNI ADD and DEL run.
const theDaemonSet = "system:serviceaccount:kube-system:whereabouts"

var refusals int

// refuse makes the API server refuse writes of whereabouts' plugin for which a CEL expression is true, with this reason:
// Forbidden as a missing right or another webhook does, Invalid as a lost race about a pool does. The function that
// is returned ends it. Both return when the API server follows.
func refuse(ctx context.Context, reason metav1.StatusReason, when string) (end func(context.Context)) {
	GinkgoHelper()
	refusals++
	name := fmt.Sprintf("refusal-%d", refusals)
	rule := func(group, resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}}
	}
	const group = "whereabouts.cni.cncf.io"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
				rule(group, "ippools", admissionregistrationv1.Update),
				rule(group, "overlappingrangeipreservations", admissionregistrationv1.Create, admissionregistrationv1.Delete),
				rule("", "configmaps", admissionregistrationv1.Create), // the probe
			}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf(`request.resource.resource == "configmaps" ? object.metadata.name != %q : `+
					`request.userInfo.username != %q || !(%s)`, name, theDaemonSet, when),
				Message: "refused by the test", Reason: &reason,
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	}
	probe := func(ctx context.Context) error {
		return admin.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}, client.DryRunAll)
	}
	Expect(admin.Create(ctx, policy)).To(Succeed())
	Expect(admin.Create(ctx, binding)).To(Succeed())
	Eventually(ctx, probe).Should(MatchError(ContainSubstring("refused by the test")))
	end = func(ctx context.Context) {
		GinkgoHelper()
		Expect(client.IgnoreNotFound(admin.Delete(ctx, binding.DeepCopy()))).To(Succeed())
		Expect(client.IgnoreNotFound(admin.Delete(ctx, policy.DeepCopy()))).To(Succeed())
		Eventually(ctx, probe).Should(Succeed())
	}
	DeferCleanup(end)
	return end
}

// updatesOf is true for every update of a pool.
func updatesOf(pool string) string {
	return fmt.Sprintf(`request.resource.resource == "ippools" && object.metadata.name == %q`, pool)
}

// releasesOf is true for what CNI DEL writes: an update that takes an entry from the pool, and the end of a reservation.
func releasesOf(pool, reservation string) string {
	return fmt.Sprintf(`(request.resource.resource == "ippools" && object.metadata.name == %q && has(oldObject.spec.allocations) && `+
		`oldObject.spec.allocations.exists(k, !has(object.spec.allocations) || !(k in object.spec.allocations))) || `+
		`(request.operation == "DELETE" && request.name == %q)`, pool, reservation)
}
