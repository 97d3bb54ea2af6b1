// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const managerPods = "holdfast-manager-pods"

// The refusals of the policy.
const (
	noSpec       = "may not change the spec"
	noLabel      = "may not change or remove a label"
	noAnnotation = "may not change or remove an annotation"
	noFinalizer  = "may remove no finalizer of a pod but"
	noOwner      = "may not change the owner references"
	noStatus     = "may write nothing of a pod's status but"

	// allowed is no refusal.
	allowed = ""
)

// The target of a write: the object itself, or its status.
const itself, inStatus = "", "status"

var _ = suite.Describe("What the manager writes to a pod", func() {
	DescribeTable("is its own finalizer, label and condition, and nothing else",
		func(ctx context.Context, subresource, patch, refusal string) {
			pod := newPod(ctx)
			Expect(patchPod(ctx, user, pod, subresource, patch, client.DryRunAll)).To(Or(Succeed(), outcome(finalizerPolicy, noLoss)), "the write is not valid for any client")
			Expect(patchPod(ctx, manager, pod, subresource, patch)).To(outcome(managerPods, refusal))
		},
		Entry("its finalizer off", itself, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`, allowed),
		Entry("its finalizer off, through the status", inStatus, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`, allowed),
		Entry("its finalizer and its label off", itself,
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"],"labels":{"holdfast.dev/guarded":null}}}`, allowed),
		Entry("its condition", inStatus, `{"status":{"conditions":[{"type":"holdfast.dev/IPsReleased","status":"False","reason":"Other"}]}}`, allowed),
		Entry("its condition off", inStatus, `{"status":{"conditions":[{"type":"holdfast.dev/IPsReleased","$patch":"delete"}]}}`, allowed),
		Entry("nothing", itself, `{}`, allowed),

		Entry("an image", itself, `{"spec":{"containers":[{"name":"main","image":"registry.invalid/other"}]}}`, noSpec),
		Entry("a field of the spec that was not there", itself, `{"spec":{"activeDeadlineSeconds":5}}`, noSpec),
		Entry("the seconds of a toleration", itself,
			`{"spec":{"tolerations":[{"operator":"Exists","effect":"NoExecute","tolerationSeconds":1}]}}`, noSpec),
		Entry("a container for debugging", "ephemeralcontainers",
			`{"spec":{"ephemeralContainers":[{"name":"debug","image":"registry.invalid/debug","terminationMessagePolicy":"File"}]}}`, noSpec),
		Entry("a container's resources", fixture.Needs(kubeversion.PodResize), "resize",
			`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"5m"}}}]}}`, noSpec),
		Entry("a label", itself, `{"metadata":{"labels":{"app":"other"}}}`, noLabel),
		Entry("a label off", itself, `{"metadata":{"labels":{"app":null}}}`, noLabel),
		Entry("a label without a value off", itself, `{"metadata":{"labels":{"empty":null}}}`, noLabel),
		Entry("a label off, through the status", inStatus, `{"metadata":{"labels":{"app":null}}}`, noLabel),
		Entry("an annotation", itself, `{"metadata":{"annotations":{"example.com/note":"y"}}}`, noAnnotation),
		Entry("an annotation off", itself, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":null}}}`, noAnnotation),
		Entry("every annotation off, through the status", inStatus, `{"metadata":{"annotations":null}}`, noAnnotation),
		Entry("a foreign finalizer off", itself, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/foreign"]}}`, noFinalizer),
		Entry("every finalizer off", itself, `{"metadata":{"finalizers":null}}`, noFinalizer),
		Entry("a foreign finalizer off, through the status", inStatus, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/foreign"]}}`, noFinalizer),
		Entry("the owners off", itself, `{"metadata":{"ownerReferences":null}}`, noOwner),
		Entry("another owner", itself, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"gone"}]}}`, noOwner),
		Entry("the phase", inStatus, `{"status":{"phase":"Succeeded"}}`, noStatus),
		Entry("a field of the status that was not there", inStatus, `{"status":{"message":"x"}}`, noStatus),
		Entry("a field of the status off", inStatus, `{"status":{"phase":null}}`, noStatus),
		Entry("a foreign condition", inStatus, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, noStatus),
		Entry("a new foreign condition", inStatus, `{"status":{"conditions":[{"type":"example.com/Gate","status":"True"}]}}`, noStatus),
		Entry("a foreign condition off", inStatus, `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`, noStatus),
		Entry("a phase together with its own condition", inStatus,
			`{"status":{"phase":"Failed","conditions":[{"type":"holdfast.dev/IPsReleased","status":"True"}]}}`, noStatus),
	)

	It("it binds no other client", func(ctx context.Context) {
		pod := newPod(ctx)
		Expect(patchPod(ctx, user, pod, itself, `{"metadata":{"labels":{"app":null},"annotations":null,"ownerReferences":null,"finalizers":["holdfast.dev/ip-allocation"]},
			"spec":{"containers":[{"name":"main","image":"registry.invalid/other"}]}}`)).To(Succeed())
		Expect(patchPod(ctx, kubelet, pod, inStatus, `{"status":{"phase":"Succeeded","conditions":[{"type":"Ready","status":"False"}]}}`)).To(Succeed())
	}, SpecTimeout(soon))
})

var _ = suite.Describe("What others add in the manager's own writes", Ordered, func() {
	const mutated = "mutated"
	protected := func(pod *corev1.Pod) { pod.Namespace, pod.OwnerReferences = mutated, nil }

	BeforeAll(func(ctx context.Context) {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mutated}})).To(Succeed())
	}, NodeTimeout(soon))

	It("passes: labels, annotations, finalizers, tolerations", func(ctx context.Context) {
		pod := newPod(ctx, protected)
		mutate(ctx, mutated, `[
			{"op": "add", "path": "/metadata/finalizers/-", "value": "other.example.com/added"},
			{"op": "add", "path": "/metadata/labels/added", "value": "yes"},
			{"op": "add", "path": "/metadata/annotations/example.com~1added", "value": "yes"},
			{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "added", "operator": "Exists"}}
		]`, newPod(ctx, protected))
		way, err := finalizer.Client{Writer: manager, Reader: manager}.Remove(ctx, named(pod))
		Expect(err).NotTo(HaveOccurred())
		Expect(way).To(Equal(finalizer.WayPatch))
		live := &corev1.Pod{}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), live)).To(Succeed())
		Expect(live.Finalizers).To(ConsistOf(foreign, "other.example.com/added"))
		Expect(live.Labels).To(HaveKeyWithValue("added", "yes"))
		Expect(live.Annotations).To(HaveKeyWithValue("example.com/added", "yes"))
		Expect(live.Spec.Tolerations).To(ContainElement(HaveField("Key", "added")))
	}, SpecTimeout(soon))

	It("does not keep the finalizer on a pod where it is more than the policy lets pass", func(ctx context.Context) {
		pod := newPod(ctx, protected)
		mutate(ctx, mutated, `[
			{"op": "add", "path": "/metadata/labels/added", "value": "yes"},
			{"op": "replace", "path": "/metadata/labels/app", "value": "changed"},
			{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.invalid/digest"}
		]`, newPod(ctx, protected))
		Expect(patchPod(ctx, manager, pod, itself, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`)).
			To(outcome(managerPods, noSpec))
		way, err := finalizer.Client{Writer: manager, Reader: manager}.Unprotect(ctx, named(pod))
		Expect(err).NotTo(HaveOccurred())
		Expect(way).To(Equal(finalizer.WayStatus))
		live := &corev1.Pod{}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), live)).To(Succeed())
		Expect(live.Finalizers).To(ConsistOf(foreign))
		Expect(live.Spec.Containers[0].Image).To(Equal("registry.invalid/none:1"))
	}, SpecTimeout(soon))
})

func named(pod *corev1.Pod) finalizer.Pod {
	return finalizer.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// mutate has the API server change every pod of a namespace in each update, as another program's webhook would, until the spec ends.
// Part of the change is the label "added", by which it is seen on the probe.
func mutate(ctx context.Context, namespace, change string, probe *corev1.Pod) {
	GinkgoHelper()
	fixture.MutatePods(ctx, namespace, change, func(ctx context.Context) bool {
		target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: probe.Namespace, Name: probe.Name}}
		err := admin.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"probe":"x"}}}`)), client.DryRunAll)
		return err == nil && target.Labels["added"] != ""
	})
}

var _ = suite.Describe("The label of a guarded pod", func() {
	const label = "holdfast-guarded-label"
	accounts := map[string]func() client.Client{
		"a user": func() client.Client { return user }, "the manager": func() client.Client { return manager },
		"the administrator": func() client.Client { return admin },
	}
	for who, account := range accounts {
		DescribeTable("and "+who, func(ctx context.Context, subresource, patch, refusal string) {
			Expect(patchPod(ctx, account(), newPod(ctx), subresource, patch)).To(outcome(label, refusal))
		},
			Entry("may not take it off", itself, `{"metadata":{"labels":{"holdfast.dev/guarded":null}}}`, "holdfast.dev/guarded=true stays"),
			Entry("may not change it", itself, `{"metadata":{"labels":{"holdfast.dev/guarded":"false"}}}`, "holdfast.dev/guarded=true stays"),
			Entry("may not take it off through the status", inStatus, `{"metadata":{"labels":{"holdfast.dev/guarded":null}}}`, "holdfast.dev/guarded=true stays"),
			Entry("may take it off together with the finalizer", itself,
				`{"metadata":{"annotations":{"holdfast.dev/unhold":"GivenUp: INC-1"},"labels":{"holdfast.dev/guarded":null},"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`, allowed),
		)
	}

	It("keeps the kubelet from nothing that it writes", func(ctx context.Context) {
		Expect(patchPod(ctx, kubelet, newPod(ctx), inStatus, `{"status":{"phase":"Failed","message":"x"}}`)).To(Succeed())
	}, SpecTimeout(soon))

	DescribeTable("may be put right", func(ctx context.Context, before map[string]string) {
		pod := newPod(ctx, func(pod *corev1.Pod) { pod.Labels = before })
		for _, account := range accounts {
			Expect(patchPod(ctx, account(), pod, itself, `{"metadata":{"labels":{"holdfast.dev/guarded":"true"}}}`, client.DryRunAll)).To(Succeed())
		}
		Expect(finalizer.Client{Writer: manager, Reader: manager}.Relabel(ctx, named(pod))).To(Succeed())
	},
		Entry("where it is missing", map[string]string{}),
		Entry("where it has another value", map[string]string{v1alpha1.GuardedLabel: "maybe"}),
	)

	It("does not apply to a pod without the finalizer", func(ctx context.Context) {
		pod := newPod(ctx, func(pod *corev1.Pod) { pod.Finalizers = nil })
		Expect(patchPod(ctx, user, pod, itself, `{"metadata":{"labels":{"holdfast.dev/guarded":null}}}`)).To(Succeed())
	}, SpecTimeout(soon))
})
