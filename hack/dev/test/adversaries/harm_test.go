// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// The stories up to the point at which the guard makes a difference. Each is the same with it and without it.

// longPending is how long the first pod of #162 is Pending: whereabouts' reconciler looks at it for three quarters of a
// second for each of its addresses.
const longPending = "12s"

// firstPending is the StatefulSet of #162 when its first pod is Pending with an address of each of two networks. Its other
// pods do not take so long.
func (w *world) firstPending(ctx context.Context) (addresses []string) {
	set := w.newSet(web, ordered, replicas, api.AddDelayAnnotation, longPending)
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	w.create(ctx, set)
	w.awaitPending(ctx, "web-0")
	w.patchSet(ctx, web, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:null}}}}}`, api.AddDelayAnnotation))
	addresses = w.held(ctx, w, "web-0")
	w.Expect(addresses).To(HaveLen(2))
	return addresses
}

// leave leaves an entry for each pod of a StatefulSet: CNI DEL is lost while these processes are away, as with pods that
// were deleted ungracefully. What is returned lets DELs pass again.
func (w *world) leave(ctx context.Context, away ...*process.Process) (mend func(context.Context)) {
	w.create(ctx, w.newSet(web, parallel, replicas))
	pods := w.awaitServed(ctx, web)
	mend = refuse(ctx, w, plugin, w.loses())
	for _, p := range away {
		w.Expect(p.Kill()).To(Succeed())
	}
	w.scale(ctx, web, 0)
	for _, pod := range pods {
		w.Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(w.liveSandboxes(ctx, g)).NotTo(HaveKey(pod.UID))
			var now corev1.Pod
			if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &now); err == nil && now.UID == pod.UID {
				g.Expect(now.Status.Phase).To(Equal(corev1.PodSucceeded))
			}
		}).Should(Succeed(), "pod %s", pod.Name)
	}
	w.Expect(w.entries(ctx, w)).To(HaveLen(replicas))
	return mend
}

// inherit is a StatefulSet of one pod whose successor, on these nodes, is being deleted and still runs when the control
// loops hear of the end of the first. The guard sees its address before its network-status.
func (w *world) inherit(ctx context.Context, loops controlLoops, first, second string) (successor *corev1.Pod, address string) {
	set := w.newSet(web, parallel, 1, api.TerminationAnnotation, "10m")
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(600))
	set.Spec.Template.Spec.NodeName = first
	w.create(ctx, set)
	old := w.awaitServed(ctx, web)["web-0"]
	w.patchSet(ctx, web, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:"3s"}},"spec":{"nodeName":%q}}}}`, api.AddDelayAnnotation, second))
	loops.tell(ctx, deafen)
	w.delete(ctx, old, client.GracePeriodSeconds(1))
	w.awaitGone(ctx, old)
	successor = w.awaitServed(ctx, web)["web-0"]
	w.Expect(successor.Spec.NodeName).To(Equal(second))
	held := w.held(ctx, w, "web-0")
	w.Expect(held).To(HaveLen(1))
	w.delete(ctx, successor)
	loops.tell(ctx, listen)
	return successor, held[0]
}

// whereabouts' control loop does not look at a pod again where the removal of its entry has failed, as when it lost the race for
// whereabouts' Lease; such a story has not told anything.
const (
	givesUp    = 2 * time.Minute
	mostLosses = 3
)

// heard is inherit, with control loops that have just started, told until one has acted on the end of the first pod. A story
// without that is brought to its end first.
func heard(ctx context.Context, loops controlLoops, first, second string, acted func(g Gomega, ctx context.Context, w *world)) (w *world, successor *corev1.Pod, address string) {
	for lost := 0; ; lost++ {
		loops.restart(ctx)
		w = newWorld(ctx, Default, 1)
		successor, address = w.inherit(ctx, loops, first, second)
		has := func(g Gomega, ctx context.Context) { acted(g, ctx, w) }
		if InterceptGomegaFailure(func() { Eventually(ctx, has).WithTimeout(givesUp).Should(Succeed()) }) == nil {
			return w, successor, address
		}
		for node, loop := range loops {
			AddReportEntry("the control loop of "+node+" did not act; its log ends with", process.LogTail(loop.LogFile()), ReportEntryVisibilityAlways)
		}
		Expect(lost).To(BeNumerically("<", mostLosses), "the control loop never acted")
		w.scale(ctx, web, 0)
		w.delete(ctx, successor, client.GracePeriodSeconds(1))
		w.awaitNothingLeft(ctx)
	}
}

// The accounts whose writes can be refused.
const (
	plugin  = "system:serviceaccount:kube-system:whereabouts"
	manager = "system:serviceaccount:holdfast-system:holdfast-manager"
)

// loses is true for the write of a pool of the story after which an entry is gone.
func (w *world) loses() string {
	var pools []string
	for _, prefix := range w.ranges {
		pools = append(pools, fmt.Sprintf("%q", strings.ReplaceAll(prefix.String(), "/", "-")))
	}
	return fmt.Sprintf(`request.resource.resource == "ippools" && object.metadata.name in [%s] && has(oldObject.spec.allocations) && `+
		`oldObject.spec.allocations.exists(k, !has(object.spec.allocations) || !(k in object.spec.allocations))`, strings.Join(pools, ","))
}

var refusals atomic.Int32

// refuse makes the API server refuse writes of an account for which a CEL expression is true, as a missing right or
// somebody's webhook does. What is returned ends it. Both return when the API server follows.
func refuse(ctx context.Context, g Gomega, account, when string) (end func(context.Context)) {
	name := fmt.Sprintf("refusal-%d", refusals.Add(1))
	rule := func(group, resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}}
	}
	const group, words = "whereabouts.cni.cncf.io", "the story says no"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
				rule(group, "ippools", admissionregistrationv1.Update),
				rule(group, "overlappingrangeipreservations", admissionregistrationv1.Delete),
				rule("", "configmaps", admissionregistrationv1.Create), // the probe
			}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf(`request.resource.resource == "configmaps" ? object.metadata.name != %q : `+
					`request.userInfo.username != %q || !(%s)`, name, account, when),
				Message: words, Reason: new(metav1.StatusReasonForbidden),
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
	g.Expect(admin.Create(ctx, policy)).To(Succeed())
	g.Expect(admin.Create(ctx, binding)).To(Succeed())
	g.Eventually(ctx, probe).Should(MatchError(ContainSubstring(words)))
	return func(ctx context.Context) {
		g.Expect(admin.Delete(ctx, binding.DeepCopy())).To(Succeed())
		g.Expect(admin.Delete(ctx, policy.DeepCopy())).To(Succeed())
		g.Eventually(ctx, probe).Should(Succeed())
	}
}
