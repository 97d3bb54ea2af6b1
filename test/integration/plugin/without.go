// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"path/filepath"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	noHoldfast    = "Holdfast is not installed (the API server serves no ipallocations.holdfast.dev)"
	noWhereabouts = "whereabouts is not installed (the API server serves no ippools.whereabouts.cni.cncf.io)"
	noMultus      = "Multus is not installed (the API server serves no network-attachment-definitions.k8s.cni.cncf.io)"
)

// undefine deletes the definitions of Holdfast, of whereabouts and of Multus.
func undefine(ctx context.Context) {
	GinkgoHelper()
	fixture.Command("kubectl-holdfast")
	var definitions apiextensionsv1.CustomResourceDefinitionList
	Expect(admin.List(ctx, &definitions)).To(Succeed())
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		if group := definition.Spec.Group; group == "holdfast.dev" || group == "whereabouts.cni.cncf.io" || group == "k8s.cni.cncf.io" {
			fixture.Undefine(ctx, definition.Name)
		}
	}
}

// define installs definitions, and waits until they are served.
func define(paths ...string) {
	GinkgoHelper()
	_, err := envtest.InstallCRDs(plane.Config(), envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true})
	Expect(err).NotTo(HaveOccurred())
}

// allocate makes the network of the running pod, its pool with 10.9.0.1, and an entry of a pod that does not exist.
func allocate(ctx context.Context) {
	GinkgoHelper()
	for _, object := range []client.Object{
		&nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "net"},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"0.3.1","name":"net","type":"macvlan","master":"eth0","ipam":{"type":"whereabouts","range":"10.9.0.0/24"}}`}},
		&wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "10.9.0.0-24"},
			Spec: wbv1alpha1.IPPoolSpec{Range: "10.9.0.0/24", Allocations: map[string]wbv1alpha1.IPAllocation{
				"1": {ContainerID: "sandbox-1", PodRef: "apps/web-0", IfName: "net1"}, "2": {ContainerID: "sandbox-2", PodRef: "apps/gone-0", IfName: "net1"}}}},
		reserved("10.9.0.1", "apps/web-0"), reserved("10.9.0.2", "apps/gone-0"),
	} {
		Expect(admin.Create(ctx, object)).To(Succeed())
	}
}

// runUnguarded makes a running pod that shows 10.9.0.1.
func runUnguarded(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}})).To(Succeed())
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-0", Annotations: map[string]string{
		nadv1.NetworkAttachmentAnnot: "net", nadv1.NetworkStatusAnnot: `[{"name":"apps/net","interface":"net1","ips":["10.9.0.1"]}]`}},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}}}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	Expect(admin.Status().Update(ctx, pod)).To(Succeed())
}

func reserved(ip, podRef string) *wbv1alpha1.OverlappingRangeIPReservation {
	return &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ip},
		Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"}}
}

// reader is the kubeconfig of a user who may read what an audit reads, and no CustomResourceDefinition.
func reader(ctx context.Context) string {
	GinkgoHelper()
	read := []string{"get", "list"}
	Expect(admin.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "namespaces", "events"}, Verbs: read},
		{APIGroups: []string{"whereabouts.cni.cncf.io", "k8s.cni.cncf.io", "holdfast.dev"}, Resources: []string{"*"}, Verbs: read}}})).To(Succeed())
	Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "reader"}}})).To(Succeed())
	return kubeconfigOf("reader")
}

// leakOnly is what the audit finds in the populated cluster without Holdfast.
const leakOnly = `Compared at TIME: 2 entries, 1 pods, 0 records, 1 nodes, 2 reservations, 0 node resource policies.
` + noHoldfast + `: pools are compared with pods alone. A leak is any entry whose pod does not exist; nothing can lack a record of Holdfast's or contradict one, and nothing is told of node-scoped objects.
Found: Leak 1.

CLASS KIND ADDRESS POD FOUND
Leak PodGone 10.9.0.2 apps/gone-0 10.9.0.2 in pool kube-system/10.9.0.0-24 is recorded for pod apps/gone-0, which does not exist

WHAT TO DO
KIND ADDRESS DO
PodGone 10.9.0.2 find out whether its sandbox is gone; then compare two reports, and release it by them (kubectl holdfast release --from-report)

1 of the leaks may be released once a later report agrees: kubectl holdfast release --from-report FIRST --from-report SECOND.
`

var _ = without.Describe("A cluster without Holdfast", Ordered, func() {
	var first string
	BeforeAll(func(ctx context.Context) {
		runUnguarded(ctx)
		first = filepath.Join(GinkgoT().TempDir(), "first.json")
	}, NodeTimeout(specTimeout))

	It("has neither Multus nor whereabouts, and that is said", func(ctx context.Context) {
		r := plugin(ctx, "audit")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring(noHoldfast), ContainSubstring(noWhereabouts), ContainSubstring(noMultus), ContainSubstring("No inconsistencies found.")))
		r = plugin(ctx, "who", "10.9.0.1")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring(noHoldfast), ContainSubstring(noWhereabouts)))
	}, SpecTimeout(specTimeout))

	It("is audited before Holdfast is installed, which is the way of a migration", func(ctx context.Context) {
		define(fixture.ModulePath("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			fixture.ModulePath("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml"))
		allocate(ctx)
		r := plugin(ctx, "audit", "--report", first)
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(text(r.out)).To(Equal(leakOnly))
		Expect(decoded(plugin(ctx, "audit", "-o", "json"))).To(HaveKeyWithValue("notServed", ConsistOf("ipallocations.holdfast.dev", "noderesourcepolicies.holdfast.dev")))
		By("as the page shows")
		shown := shownBy(transcript.Alone)
		Expect(shown).To(HaveLen(1))
		out, stderr, _ := shell(ctx, plane.Kubeconfig(), shown[0].Command)
		Expect(text(out)).To(HavePrefix(text(shown[0].Output)), stderr)
		By("by a user who may not read definitions")
		r = pluginWith(ctx, reader(ctx), "", "audit")
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(text(r.out)).To(Equal(leakOnly))
	}, SpecTimeout(specTimeout))
})
