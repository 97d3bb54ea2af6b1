// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// What refuses before any policy is asked: RBAC for want of a right, and the plugin NodeRestriction.
const (
	byRBAC          = "cannot"
	byNodeAdmission = "can only update pod status for pods with spec.nodeName set to itself"
	byOtherNode     = "is not allowed to modify node"
)

// refusedAs matches a refusal by RBAC, by NodeRestriction, or by that policy.
func refusedAs(policy, text string) gomegatypes.GomegaMatcher {
	if text == byRBAC || text == byNodeAdmission || text == byOtherNode {
		return MatchError(ContainSubstring(text))
	}
	return outcome(policy, text)
}

var _ = suite.Describe("A report of the kubelet", func() {
	// Each forgery is one that the API server takes from an administrator: what refuses it is the policy.
	forgeries := map[string]func(context.Context, client.Client, *corev1.Pod) error{
		"the end of the pod, through the status": func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			return c.Status().Update(ctx, terminal(pod), client.FieldOwner("kubelet"))
		},
		"a newer time": func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			entries := slices.Clone(pod.ManagedFields)
			entries[entryOf(pod)].Time = new(metav1.NewTime(time.Now().Add(time.Hour)))
			return update(ctx, c, pod, entries)
		},
		"an older time": func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			entries := slices.Clone(pod.ManagedFields)
			entries[entryOf(pod)].Time = new(metav1.NewTime(time.Now().Add(-time.Hour)))
			return update(ctx, c, pod, entries)
		},
		"one field more": func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			entries := slices.Clone(pod.ManagedFields)
			at := entryOf(pod)
			entries[at].FieldsV1 = metav1.NewFieldsV1(strings.Replace(entries[at].FieldsV1.GetRawString(), `"f:status":{`, `"f:status":{"f:message":{},`, 1))
			return update(ctx, c, pod, entries)
		},
		"one field more of a condition": func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			entries := slices.Clone(pod.ManagedFields)
			at := entryOf(pod)
			entries[at].FieldsV1 = metav1.NewFieldsV1(strings.Replace(entries[at].FieldsV1.GetRawString(), `"f:reason":{}`, `"f:message":{},"f:reason":{}`, 1))
			return update(ctx, c, pod, entries)
		},
		"another writer's entry under its name": func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			entries := slices.Clone(pod.ManagedFields)
			for i := range entries {
				if i != entryOf(pod) && entries[i].Subresource == "status" {
					entries[i].Manager, entries[entryOf(pod)].Manager = "kubelet", "another"
				}
			}
			return update(ctx, c, pod, entries)
		},
		"a second entry, of an Apply": func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			entry := pod.ManagedFields[entryOf(pod)]
			entry.Operation = metav1.ManagedFieldsOperationApply
			return update(ctx, c, pod, append(slices.Clone(pod.ManagedFields), entry))
		},
	}
	actors := map[string]struct {
		account account
		// refusals of those forgeries that RBAC refuses already; the others meet the policy.
		status, main string
	}{
		"a tenant with the role edit":              {func() client.Client { return tenant }, byRBAC, noReport},
		"Multus with its ClusterRole":              {func() client.Client { return multus }, noReport, noReport},
		"whereabouts with its ClusterRole":         {func() client.Client { return whereabouts }, byRBAC, byRBAC},
		"flannel with its ClusterRole":             {func() client.Client { return flannel }, byRBAC, byRBAC},
		"the kubelet of another node":              {func() client.Client { return otherKubelet }, byNodeAdmission, byRBAC},
		"Holdfast's agent on the node":             {func() client.Client { return agentA }, byRBAC, byRBAC},
		"a cluster administrator":                  {func() client.Client { return user }, noReport, noReport},
		"an administrator of the group of masters": {func() client.Client { return admin }, noReport, noReport},
	}
	for who, actor := range actors {
		It("is forged by no account: "+who, func(ctx context.Context) {
			for what, forge := range forgeries {
				pod := reported(ctx)
				refusal := actor.main
				if strings.Contains(what, "status") {
					refusal = actor.status
				}
				Expect(forge(ctx, actor.account(), pod)).To(refusedAs(kubeletReports, refusal), what)
				Expect(live(ctx, pod).ManagedFields).To(Equal(pod.ManagedFields), what)
			}
		}, SpecTimeout(soon))
	}

	DescribeTable("is bound to the finalizer and to the label, before and after the write",
		func(ctx context.Context, change func(*corev1.Pod), refusal string) {
			pod := newPod(ctx, change)
			Expect(patchPod(ctx, user, pod, inStatus, `{"status":{"message":"x"}}`, client.FieldOwner("kubelet"))).To(outcome(kubeletReports, refusal))
		},
		Entry("the finalizer alone", func(pod *corev1.Pod) { delete(pod.Labels, v1alpha1.GuardedLabel) }, noReport),
		Entry("the label alone", func(pod *corev1.Pod) { pod.Finalizers = nil }, noReport),
		Entry("neither", func(pod *corev1.Pod) { pod.Finalizers = nil; delete(pod.Labels, v1alpha1.GuardedLabel) }, allowed),
	)

	It("is not guarded any more once it has ended", func(ctx context.Context) {
		bare := func(pod *corev1.Pod) { pod.Finalizers = nil; delete(pod.Labels, v1alpha1.GuardedLabel) }
		label := `{"metadata":{"labels":{"holdfast.dev/guarded":"true"}}}`
		finalizer := `{"metadata":{"finalizers":["holdfast.dev/ip-allocation"]}}`
		living := reported(ctx, bare)
		for _, phase := range []string{"Succeeded", "Failed"} {
			ended := reported(ctx, bare)
			Expect(patchPod(ctx, user, ended, inStatus, fmt.Sprintf(`{"status":{"phase":%q}}`, phase), client.FieldOwner("kubelet"))).To(Succeed())
			for _, patch := range []string{label, finalizer} {
				for _, account := range []client.Client{tenant, user, manager} {
					Expect(patchPod(ctx, account, ended, "", patch, client.DryRunAll)).To(outcome(kubeletReports, "the pod has ended without the label"), patch)
					Expect(patchPod(ctx, account, living, "", patch, client.DryRunAll)).To(Succeed(), patch)
				}
			}
			Expect(patchPod(ctx, user, ended, "", `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		}
		guarded := reported(ctx, func(pod *corev1.Pod) { pod.Finalizers = nil })
		Expect(patchPod(ctx, kubelet, guarded, inStatus, `{"status":{"phase":"Succeeded"}}`, client.FieldOwner("kubelet"))).To(Succeed())
		Expect(patchPod(ctx, user, guarded, "", finalizer, client.DryRunAll)).To(Succeed(), "it was guarded by its label when it ended")
	}, SpecTimeout(soon))

	It("does not come with a pod that is created", func(ctx context.Context) {
		pod := reported(ctx)
		restored := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: apps, GenerateName: "restored-", Labels: pod.Labels, Finalizers: pod.Finalizers,
			ManagedFields: pod.ManagedFields}, Spec: pod.Spec}
		Expect(tenant.Create(ctx, restored, client.DryRunAll)).To(outcome(kubeletReports, "Leave metadata.managedFields out"))
		restored.ManagedFields = nil
		Expect(tenant.Create(ctx, restored, client.DryRunAll)).To(Succeed())
	}, SpecTimeout(soon))

	It("is not taken off together with the protection", func(ctx context.Context) {
		pod := reported(ctx)
		forged := terminal(pod)
		forged.Finalizers, forged.Labels = nil, nil
		forged.Annotations[v1alpha1.UnholdAnnotation] = v1alpha1.UnholdGivenUp.Because("so that no other policy refuses it")
		Expect(user.Status().Update(ctx, forged, client.FieldOwner("kubelet"))).To(outcome(kubeletReports, noReport))
	}, SpecTimeout(soon))

	It("is not changed within the second in which the kubelet made it, which leaves the same managedFields", func(ctx context.Context) {
		pod := reported(ctx)
		write := func(c client.Client, phase string) error {
			return patchPod(ctx, c, pod, inStatus, fmt.Sprintf(`{"status":{"phase":%q}}`, phase), client.FieldOwner("kubelet"))
		}
		Eventually(ctx, func(g Gomega) {
			g.Expect(write(kubelet, "Pending")).To(Succeed())
			g.Expect(write(kubelet, "Running")).To(Succeed())
			Expect(write(user, "Failed")).To(outcome(kubeletReports, noReport))
			found := live(ctx, pod)
			g.Expect(time.Now().Unix()).To(Equal(found.ManagedFields[entryOf(found)].Time.Unix()), "all of it within one second")
		}).Should(Succeed())
	}, SpecTimeout(soon))

	It("that the pod was rejected is not turned into one that it ran", func(ctx context.Context) {
		pod := reported(ctx)
		Expect(patchPod(ctx, kubelet, pod, inStatus, `{"status":{"phase":"Failed","message":"Pod was rejected: x"}}`, client.FieldOwner("kubelet"))).To(Succeed())
		for _, patch := range []string{`{"status":{"message":null}}`, `{"status":{"message":"done"}}`, `{"status":{"containerStatuses":[{"name":"main"}]}}`,
			`{"status":{"initContainerStatuses":[{"name":"main"}]}}`} {
			Expect(patchPod(ctx, user, pod, inStatus, patch)).To(outcome(kubeletReports, noReport), patch)
		}
		By("but an administrator may say that it failed, in his own name")
		Expect(patchPod(ctx, user, pod, inStatus, `{"status":{"phase":"Succeeded","message":"done"}}`)).To(Succeed())
	}, SpecTimeout(soon))

	It("is judged in every subresource that writes a pod", func(ctx context.Context) {
		finder, err := discovery.NewDiscoveryClientForConfig(plane.Config())
		Expect(err).NotTo(HaveOccurred())
		served, err := finder.ServerResourcesForGroupVersion("v1")
		Expect(err).NotTo(HaveOccurred())
		var writing []string
		for _, resource := range served.APIResources {
			if strings.HasPrefix(resource.Name, "pods/") && resource.Kind == "Pod" && slices.Contains([]string(resource.Verbs), "update") {
				writing = append(writing, resource.Name)
			}
		}
		known := []string{"pods/status", "pods/ephemeralcontainers"}
		if fixture.Serves(kubeversion.PodResize, plane.Config()) {
			known = append(known, "pods/resize")
		}
		Expect(writing).To(ConsistOf(known))
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: kubeletReports}, policy)).To(Succeed())
		Expect(policy.Spec.MatchConstraints.ResourceRules[1].Resources).To(ConsistOf("pods", "pods/*"))
		pod := reported(ctx)
		for subresource, patch := range map[string]string{
			"ephemeralcontainers": `{"spec":{"ephemeralContainers":[{"name":"debug","image":"registry.invalid/debug","terminationMessagePolicy":"File"}]}}`,
			"resize":              `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"5m"}}}]}}`,
		} {
			if !slices.Contains(writing, "pods/"+subresource) {
				continue
			}
			before := live(ctx, pod).ManagedFields
			err := patchPod(ctx, user, pod, subresource, patch, client.FieldOwner("kubelet"))
			if err == nil && !fixture.Serves(kubeversion.PodResize, plane.Config()) {
				Expect(live(ctx, pod).ManagedFields).To(Equal(before), "Kubernetes before 1.33 records no manager of %s, so that nothing is forged", subresource)
				continue
			}
			Expect(err).To(outcome(kubeletReports, noReport), subresource)
			Expect(patchPod(ctx, user, pod, subresource, patch)).To(Succeed(), subresource)
		}
	}, SpecTimeout(soon))

	It("comes from an account that the administrator lists", func(ctx context.Context) {
		pod := reported(ctx)
		list := func(ctx context.Context, accounts string) {
			for _, name := range []string{kubeletReports, nodeIdentity} {
				policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
				// A patch without a resourceVersion: kube-controller-manager writes the policy's status meanwhile.
				Expect(admin.Patch(ctx, policy, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
					`[{"op":"test","path":"/spec/variables/0/name","value":"kubeletAccounts"},{"op":"replace","path":"/spec/variables/0/expression","value":%q}]`,
					accounts)))).To(Succeed())
			}
		}
		forge := func(ctx context.Context) error {
			return patchPod(ctx, user, pod, inStatus, `{"status":{"message":"x"}}`, client.FieldOwner("kubelet"), client.DryRunAll)
		}
		renew := func(ctx context.Context) error {
			return patchNode(ctx, user, nodeA, inStatus, machineIdentity, client.DryRunAll)
		}
		list(ctx, `["system:serviceaccount:kwok:kwok", "jane"]`)
		DeferCleanup(func(ctx context.Context) {
			list(ctx, "[]")
			Eventually(ctx, forge).Should(outcome(kubeletReports, noReport))
			Eventually(ctx, renew).Should(outcome(nodeIdentity, noIdentity))
		}, NodeTimeout(soon))
		Eventually(ctx, forge).Should(Succeed())
		Eventually(ctx, renew).Should(Succeed())
	}, SpecTimeout(soon))
})

// update sends the whole pod with managedFields of the client.
func update(ctx context.Context, c client.Client, pod *corev1.Pod, entries []metav1.ManagedFieldsEntry) error {
	changed := pod.DeepCopy()
	changed.ManagedFields = entries
	// The API server ignores a write that changes nothing but a time.
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "example.com/note", "changed")
	return c.Update(ctx, changed)
}

var _ = suite.Describe("With the policies on evidence, the ordinary work of all clients continues:", func() {
	It("the kubelet reports, again and again, and ends the pod", func(ctx context.Context) {
		pod := reported(ctx)
		for _, phase := range []string{"Running", "Succeeded"} {
			Expect(patchPod(ctx, kubelet, pod, inStatus, fmt.Sprintf(`{"status":{"phase":%q,"message":%q}}`, phase, phase), client.FieldOwner("kubelet"))).To(Succeed())
		}
		Expect(live(ctx, pod).Status.Phase).To(Equal(corev1.PodSucceeded))
	}, SpecTimeout(soon))

	It("Multus writes the network status, and takes over no field of the kubelet", func(ctx context.Context) {
		pod := reported(ctx)
		Expect(patchPod(ctx, kubelet, pod, inStatus, `{"status":{"containerStatuses":[{"name":"main","image":"i","imageID":"i","ready":true,"restartCount":0,`+
			`"state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}},"volumeMounts":[{"name":"token","mountPath":"/token"}]}]}}`, client.FieldOwner("kubelet"))).To(Succeed())
		Eventually(ctx, func() error {
			found := &corev1.Pod{}
			if err := multus.Get(ctx, client.ObjectKeyFromObject(pod), found); err != nil {
				return err
			}
			found.Status.ContainerStatuses[0].VolumeMounts = nil // a Multus of an older API drops it
			metav1.SetMetaDataAnnotation(&found.ObjectMeta, "k8s.v1.cni.cncf.io/network-status", "[]")
			return multus.Status().Update(ctx, found, client.FieldOwner("multus"))
		}).Should(Succeed())
		Expect(live(ctx, pod).Annotations).To(HaveKey("k8s.v1.cni.cncf.io/network-status"))
	}, SpecTimeout(soon))

	It("the collector of pods ends a pod whose phase the kubelet wrote, and deletes it", func(ctx context.Context) {
		pod := reported(ctx)
		Expect(patchPod(ctx, podGC, pod, inStatus, `{"status":{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True"}]}}`,
			client.FieldOwner("kube-controller-manager"))).To(Succeed())
		Expect(podGC.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
		ended := live(ctx, pod)
		Expect(ended.Status.Phase).To(Equal(corev1.PodFailed))
		Expect(ended.ManagedFields[entryOf(ended)].FieldsV1.GetRawString()).NotTo(ContainSubstring("f:phase"))
	}, SpecTimeout(soon))

	It("the real controllers evict a pod by a taint, and end and delete the pod of a Node that is gone", func(ctx context.Context) {
		const node = "node-gone"
		itself := fixture.Kubelet(node)
		createNode(ctx, node, itself)
		on := func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Spec.Tolerations, pod.Finalizers = node, nil, []string{v1alpha1.Finalizer}
		}
		pod := newPod(ctx, on)
		Expect(patchPod(ctx, itself, pod, inStatus, `{"status":{"phase":"Running"}}`, client.FieldOwner("kubelet"))).To(Succeed())
		Expect(patchNode(ctx, admin, node, "", `{"spec":{"taints":[{"key":"example.com/away","effect":"NoExecute"}]}}`)).To(Succeed())
		Eventually(ctx, func() *metav1.Time { return live(ctx, pod).DeletionTimestamp }).ShouldNot(BeNil())
		Expect(live(ctx, pod).Status.Conditions).To(ContainElement(HaveField("Type", corev1.DisruptionTarget)))
	}, SpecTimeout(soon))

	It("a tenant edits, labels, annotates and debugs a pod", func(ctx context.Context) {
		pod := reported(ctx)
		Expect(patchPod(ctx, tenant, pod, itself, `{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"}}}`)).To(Succeed())
		found := &corev1.Pod{}
		Expect(tenant.Get(ctx, client.ObjectKeyFromObject(pod), found)).To(Succeed())
		found.Spec.Containers[0].Image = "registry.invalid/none:2"
		Expect(tenant.Update(ctx, found)).To(Succeed(), "with the managedFields that were read")
		Expect(patchPod(ctx, user, pod, "ephemeralcontainers",
			`{"spec":{"ephemeralContainers":[{"name":"debug","image":"registry.invalid/debug","terminationMessagePolicy":"File"}]}}`)).To(Succeed())
	}, SpecTimeout(soon))

	It("a tenant resizes a pod", fixture.Needs(kubeversion.PodResize), func(ctx context.Context) {
		Expect(patchPod(ctx, user, reported(ctx), "resize", `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"5m"}}}]}}`)).To(Succeed())
	}, SpecTimeout(soon))

	It("a client empties managedFields, which takes evidence away and adds none", func(ctx context.Context) {
		pod := reported(ctx)
		Expect(replaceManagedFields(ctx, tenant, pod, []metav1.ManagedFieldsEntry{{}})).To(Succeed())
		Expect(live(ctx, pod).ManagedFields).NotTo(ContainElement(HaveField("Manager", "kubelet")))
	}, SpecTimeout(soon))

	It("a kubelet still reports, and another writer is still refused, on the largest pod that a tenant can make", func(ctx context.Context) {
		pod := reported(ctx)
		entries, managers := slices.Clone(pod.ManagedFields), 9000
		if !fixture.Serves(kubeversion.MutatingAdmissionPolicy, plane.Config()) {
			managers = 1000 // Kubernetes up to 1.35 converts the pod once for each of them, and no write of 9000 ends in time
		}
		for i := range managers {
			entries = append(entries, metav1.ManagedFieldsEntry{Manager: fmt.Sprint("m", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1",
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`), Time: new(metav1.Now())})
		}
		Expect(update(ctx, tenant, pod, entries)).To(Succeed())
		Expect(patchPod(ctx, kubelet, pod, inStatus, `{"status":{"message":"x"}}`, client.FieldOwner("kubelet"))).To(Succeed())
		Expect(patchPod(ctx, podGC, pod, inStatus, `{"status":{"phase":"Failed"}}`, client.FieldOwner("kube-controller-manager"))).To(Succeed())
		Expect(patchPod(ctx, multus, pod, inStatus, `{"status":{"message":"y"}}`, client.FieldOwner("kubelet"))).NotTo(Succeed())
		Expect(patchPod(ctx, user, pod, inStatus, `{"status":{"message":"y"}}`, client.FieldOwner("kubelet"))).To(outcome(kubeletReports, noReport))
	}, SpecTimeout(soon))
})

var _ = suite.Describe("A Node's machine identity", func() {
	forgeries := map[string]string{
		"the system UUID": machineIdentity, "the machine ID": `{"status":{"nodeInfo":{"machineID":"another"}}}`,
		"the boot ID": `{"status":{"nodeInfo":{"bootID":"another"}}}`, "the kubelet's version": `{"status":{"nodeInfo":{"kubeletVersion":"another"}}}`,
	}
	actors := map[string]struct {
		account account
		refusal string
	}{
		"a tenant with the role edit":      {func() client.Client { return tenant }, byRBAC},
		"Multus with its ClusterRole":      {func() client.Client { return multus }, byRBAC},
		"whereabouts with its ClusterRole": {func() client.Client { return whereabouts }, byRBAC},
		"flannel with its ClusterRole":     {func() client.Client { return flannel }, noIdentity},
		"the kubelet of another node":      {func() client.Client { return otherKubelet }, byOtherNode},
		"Holdfast's agent on the node":     {func() client.Client { return agentA }, byRBAC},
		"a cluster administrator":          {func() client.Client { return user }, noIdentity},
	}
	for who, actor := range actors {
		It("is forged by no account: "+who, func(ctx context.Context) {
			for what, patch := range forgeries {
				Expect(patchNode(ctx, actor.account(), nodeA, inStatus, patch)).To(refusedAs(nodeIdentity, actor.refusal), what)
			}
		}, SpecTimeout(soon))
	}

	It("is written by the node itself, and the rest of the status by others too", func(ctx context.Context) {
		condition := `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False","reason":"FlannelIsUp"}]}}`
		Expect(patchNode(ctx, flannel, nodeA, inStatus, condition)).To(Succeed())
		Expect(patchNode(ctx, user, nodeA, itself, `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		Expect(patchNode(ctx, kubelet, nodeA, inStatus, machineIdentity)).To(Succeed())
		By("and a client of an older API may drop what Holdfast does not read")
		Expect(patchNode(ctx, kubelet, nodeA, inStatus, `{"status":{"nodeInfo":{"swap":{"capacity":1}}}}`)).To(Succeed())
		Expect(patchNode(ctx, user, nodeA, inStatus, `{"status":{"nodeInfo":{"swap":null}}}`)).To(Succeed())
		Expect(patchNode(ctx, kubelet, nodeA, inStatus, `{"status":{"nodeInfo":{"systemUUID":"system-node-a"}}}`)).To(Succeed())
	}, SpecTimeout(soon))

	It("does not come with a Node that others create", func(ctx context.Context) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-created"}}
		Expect(user.Create(ctx, node.DeepCopy(), client.DryRunAll)).To(Succeed())
		node.Status.NodeInfo.BootID = "boot"
		Expect(user.Create(ctx, node.DeepCopy(), client.DryRunAll)).To(outcome(nodeIdentity, noIdentity))
		Expect(fixture.Kubelet("node-created").Create(ctx, node, client.DryRunAll)).To(Succeed())
	}, SpecTimeout(soon))
})
