// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// pool is one whereabouts network of a spec: its NetworkAttachmentDefinition, and how many addresses it has.
type pool struct {
	name string
	size int
	// network is whereabouts' network_name, where it has one.
	network string
}

// world is one spec's own namespace and networks, so that specs do not meet.
type world struct {
	namespace string
	ranges    []netip.Prefix
}

var subnets byte

// newWorld makes a namespace with these networks, each in a pool of its own: 10.6.<n>.1 and so on.
func newWorld(ctx context.Context, pools ...pool) *world {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "guarded-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	w := &world{namespace: namespace.Name}
	for _, p := range pools {
		w.define(ctx, p)
	}
	Eventually(ctx, func(ctx context.Context) error {
		return admin.Get(ctx, w.key("default"), &corev1.ServiceAccount{})
	}).Should(Succeed())
	return w
}

func (w *world) define(ctx context.Context, p pool) {
	GinkgoHelper()
	subnets++
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 6, subnets, 0}), 24)
	w.ranges = append(w.ranges, prefix)
	ipam := map[string]any{
		"type": "whereabouts", "range": prefix.String(), "range_start": nth(prefix, 1).String(), "range_end": nth(prefix, p.size).String(),
	}
	if p.network != "" {
		ipam["network_name"] = p.network
	}
	config, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "type": "macvlan", "ipam": ipam})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: p.name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: string(config)},
	})).To(Succeed())
}

// nth is the address at an offset of a range that has less than 256.
func nth(prefix netip.Prefix, offset int) netip.Addr {
	address := prefix.Masked().Addr().As4()
	address[3] += byte(offset)
	return netip.AddrFrom4(address)
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// template is a pod that ends at once when it is told to.
func template(networks string, annotations ...string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: networks}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "app"}}},
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		t.Annotations[annotations[i]] = annotations[i+1]
	}
	return t
}

func (w *world) create(ctx context.Context, name string, t corev1.PodTemplateSpec) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Namespace, pod.Name = w.namespace, name
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// run creates a pod that the webhook stamps, and waits until it runs with its addresses.
func (w *world) run(ctx context.Context, name string, t corev1.PodTemplateSpec) *corev1.Pod {
	GinkgoHelper()
	pod := w.create(ctx, name, t)
	Expect(pod.Finalizers).To(ContainElement(v1alpha1.Finalizer), "the webhook stamps it")
	w.awaitServed(ctx, pod)
	return pod
}

// delete asks for the deletion of these very pods.
func (w *world) delete(ctx context.Context, pods ...*corev1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Expect(admin.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &pod.UID})).To(Succeed())
	}
}

// awaitGone waits until these very pods are gone, whoever has their names then.
func (w *world) awaitGone(ctx context.Context, pods ...*corev1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(ctx, func(ctx context.Context) (bool, error) { return isGone(ctx, pod) }).Should(BeTrue(), "pod %s", pod.Name)
	}
}

func isGone(ctx context.Context, pod *corev1.Pod) (bool, error) {
	var live corev1.Pod
	err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && live.UID != pod.UID, err
}

// live is the pod as it is now; it must be the very pod.
func live(ctx context.Context, g Gomega, pod *corev1.Pod) *corev1.Pod {
	var now corev1.Pod
	g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &now)).To(Succeed())
	g.Expect(now.UID).To(Equal(pod.UID), "another pod has the name %s", pod.Name)
	return &now
}

func (w *world) pods(ctx context.Context, g Gomega) []corev1.Pod {
	var list corev1.PodList
	g.Expect(admin.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// statefulSet makes one whose pods start and end side by side, except when it rolls.
func (w *world) statefulSet(ctx context.Context, name string, replicas int32, t corev1.PodTemplateSpec) {
	GinkgoHelper()
	labels := map[string]string{"app": name}
	t.Labels = labels
	Expect(admin.Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: t,
		},
	})).To(Succeed())
}

func (w *world) scale(ctx context.Context, name string, replicas int) {
	GinkgoHelper()
	w.patchStatefulSet(ctx, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// roll changes the template, so that every pod is replaced, one after the other.
func (w *world) roll(ctx context.Context, name, revision string) {
	GinkgoHelper()
	w.patchStatefulSet(ctx, name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"revision":%q}}}}}`, revision))
}

func (w *world) patchStatefulSet(ctx context.Context, name, patch string) {
	GinkgoHelper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Expect(admin.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// awaitStatefulSet waits until all its pods are those of the newest template and run with their addresses, and returns
// them by name.
func (w *world) awaitStatefulSet(ctx context.Context, name string) map[string]*corev1.Pod {
	GinkgoHelper()
	pods := map[string]*corev1.Pod{}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		var set appsv1.StatefulSet
		g.Expect(admin.Get(ctx, w.key(name), &set)).To(Succeed())
		g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation))
		clear(pods)
		all := w.pods(ctx, g)
		for i := range all {
			if all[i].Labels["app"] == name {
				pods[all[i].Name] = &all[i]
			}
		}
		g.Expect(pods).To(HaveLen(int(*set.Spec.Replicas)))
		for _, pod := range pods {
			g.Expect(pod.DeletionTimestamp).To(BeNil())
			g.Expect(pod.Labels).To(HaveKeyWithValue(appsv1.ControllerRevisionHashLabelKey, set.Status.UpdateRevision))
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
		}
	}).Should(Succeed())
	for _, pod := range pods {
		w.awaitServed(ctx, pod)
	}
	return pods
}

func setUnschedulable(ctx context.Context, node string) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))
	Expect(admin.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)).To(Succeed())
}
