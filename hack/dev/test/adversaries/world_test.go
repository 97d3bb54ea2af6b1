// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync/atomic"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// world is one story's own namespace and networks, so that stories do not meet. Those of the churn matrix run side by side,
// each with a Gomega of its own.
type world struct {
	Gomega
	namespace string
	// networks is the annotation of pods that want an address of each range.
	networks string
	ranges   []netip.Prefix
}

var subnets atomic.Int32

// newWorld makes a namespace with as many networks as there are sizes, each with so many addresses: 10.66.<n>.1 and so on.
func newWorld(ctx context.Context, g Gomega, sizes ...int) *world {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "adversaries-"}}
	g.Expect(admin.Create(ctx, namespace)).To(Succeed())
	w := &world{Gomega: g, namespace: namespace.Name}
	var names []string
	for i, size := range sizes {
		names = append(names, fmt.Sprintf("wb-%d", i))
		w.define(ctx, names[i], size)
	}
	w.networks = strings.Join(names, ",")
	g.Eventually(ctx, func(ctx context.Context) error {
		return admin.Get(ctx, w.key("default"), &corev1.ServiceAccount{})
	}).Should(Succeed())
	return w
}

func (w *world) define(ctx context.Context, name string, size int) {
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 66, byte(subnets.Add(1)), 0}), 24) // #nosec G115 -- a few dozen
	w.ranges = append(w.ranges, prefix)
	config, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "type": "macvlan", "ipam": map[string]any{
		"type": "whereabouts", "range": prefix.String(), "range_start": nth(prefix, 1).String(), "range_end": nth(prefix, size).String(),
		"configuration_path": flatFile,
		// whereabouts has one Lease for the whole cluster, and looks for it every half second.
		"leader_retry_period": 100,
	}})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: string(config)},
	})).To(Succeed())
}

// nth is the address at an offset of a range that has less than 256.
func nth(prefix netip.Prefix, offset int) netip.Addr {
	address := prefix.Masked().Addr().As4()
	address[3] += byte(offset) // #nosec G115 -- as said
	return netip.AddrFrom4(address)
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

const setLabel = "set"

// newSet is a StatefulSet whose pods have an address of every network, and end at once when they are told to.
func (w *world) newSet(name string, policy appsv1.PodManagementPolicyType, replicas int, annotations ...string) *appsv1.StatefulSet {
	labels := map[string]string{setLabel: w.namespace + "." + name}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: w.networks}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "app"}}},
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		template.Annotations[annotations[i]] = annotations[i+1]
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(replicas)), ServiceName: name, PodManagementPolicy: policy, // #nosec G115 -- a handful
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	}
}

func (w *world) create(ctx context.Context, set *appsv1.StatefulSet) {
	w.Expect(admin.Create(ctx, set.DeepCopy())).To(Succeed())
}

func (w *world) scale(ctx context.Context, name string, replicas int) {
	w.patchSet(ctx, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// roll changes the template, so that every pod is replaced, one after the other.
func (w *world) roll(ctx context.Context, name, revision string) {
	w.patchSet(ctx, name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"revision":%q}}}}}`, revision))
}

func (w *world) patchSet(ctx context.Context, name, patch string) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	w.Expect(admin.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// awaitServed waits until the StatefulSet has just its replicas, all of the newest template, and each runs with an address
// of every network that the pools have under its one live sandbox.
func (w *world) awaitServed(ctx context.Context, name string) map[string]*corev1.Pod {
	var pods map[string]*corev1.Pod
	w.Eventually(ctx, func(g Gomega, ctx context.Context) {
		var set appsv1.StatefulSet
		g.Expect(admin.Get(ctx, w.key(name), &set)).To(Succeed())
		g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation))
		pods = w.podsOf(ctx, g, name)
		g.Expect(said(pods)).To(HaveLen(int(*set.Spec.Replicas)))
		for _, pod := range pods {
			g.Expect(pod.DeletionTimestamp).To(BeNil(), "pod %s", pod.Name)
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning), "pod %s", pod.Name)
			if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
				g.Expect(pod.Labels).To(HaveKeyWithValue(appsv1.ControllerRevisionHashLabelKey, set.Status.UpdateRevision))
			}
		}
		entries, sandboxes := w.entries(ctx, g), w.liveSandboxes(ctx, g)
		for _, pod := range pods {
			g.Expect(sandboxes[pod.UID]).To(HaveLen(1), "sandboxes of pod %s", pod.Name)
			addresses := w.shown(g, pod)
			g.Expect(addresses).To(HaveLen(len(w.ranges)), "addresses of pod %s", pod.Name)
			for _, ip := range addresses {
				g.Expect(entries).To(HaveKeyWithValue(ip, And(HaveField("ContainerID", sandboxes[pod.UID][0].ID), HaveField("PodRef", w.namespace+"/"+pod.Name))))
			}
		}
	}).Should(Succeed(), "StatefulSet %s", name)
	return pods
}

// awaitPending waits until a pod has its addresses, and its network-status does not say so yet.
func (w *world) awaitPending(ctx context.Context, name string) *corev1.Pod {
	pod := &corev1.Pod{}
	w.Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(admin.Get(ctx, w.key(name), pod)).To(Succeed())
		g.Expect(pod.DeletionTimestamp).To(BeNil())
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodPending))
		g.Expect(w.shown(g, pod)).To(BeEmpty())
		g.Expect(w.held(ctx, g, name)).To(HaveLen(len(w.ranges)))
	}).Should(Succeed(), "pod %s", name)
	return pod
}

func (w *world) podsOf(ctx context.Context, g Gomega, set string) map[string]*corev1.Pod {
	pods := w.pods(ctx, g)
	maps.DeleteFunc(pods, func(_ string, pod *corev1.Pod) bool { return pod.Labels[setLabel] != w.namespace+"."+set })
	return pods
}

// pods are the story's, by name.
func (w *world) pods(ctx context.Context, g Gomega) map[string]*corev1.Pod {
	var list corev1.PodList
	g.Expect(admin.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods
}

// delete asks for the deletion of this very pod.
func (w *world) delete(ctx context.Context, pod *corev1.Pod, options ...client.DeleteOption) {
	w.Expect(admin.Delete(ctx, pod.DeepCopy(), append(options, client.Preconditions{UID: &pod.UID})...)).To(Succeed())
}

// awaitGone waits until this very pod is gone, whoever has its name then.
func (w *world) awaitGone(ctx context.Context, pod *corev1.Pod) {
	w.Eventually(ctx, func(ctx context.Context) (bool, error) {
		var live corev1.Pod
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && live.UID != pod.UID, err
	}).Should(BeTrue(), "pod %s (UID %s)", pod.Name, pod.UID)
}
