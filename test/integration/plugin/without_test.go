// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	recordsDefinition  = "holdfast.dev_ipallocations.yaml"
	policiesDefinition = "holdfast.dev_noderesourcepolicies.yaml"

	noHoldfast    = "Holdfast is not installed (the API server serves no ipallocations.holdfast.dev)"
	noWhereabouts = "whereabouts is not installed (the API server serves no ippools.whereabouts.cni.cncf.io)"
	noMultus      = "Multus is not installed (the API server serves no network-attachment-definitions.k8s.cni.cncf.io)"
)

// bare is a cluster of its own, in which nothing is installed until a spec does.
type bare struct {
	*controlplane.ControlPlane
	admin client.Client
}

func startBare(ctx context.Context) *bare {
	GinkgoHelper()
	started, err := controlplane.Start(ctx, controlplane.Options{NodeMonitorGracePeriod: time.Hour, NodeStartupGracePeriod: time.Hour, Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(started.Stop()).To(Succeed()) })
	types := runtime.NewScheme()
	utilruntime.Must(apiextensionsv1.AddToScheme(types))
	utilruntime.Must(addAll(types))
	c, err := client.New(started.Config(), client.Options{Scheme: types})
	Expect(err).NotTo(HaveOccurred())
	return &bare{started, c}
}

func (b *bare) plugin(ctx context.Context, args ...string) result {
	GinkgoHelper()
	return pluginWith(ctx, b.Kubeconfig(), "", args...)
}

// define installs definitions, and waits until they are served.
func (b *bare) define(paths ...string) {
	GinkgoHelper()
	_, err := envtest.InstallCRDs(b.Config(), envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true})
	Expect(err).NotTo(HaveOccurred())
}

func ours(file string) string { return filepath.Join(repository, "config/crd/bases", file) }

// defineChanged installs a definition of ours that is not quite ours, until the spec ends.
func (b *bare) defineChanged(ctx context.Context, file string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	GinkgoHelper()
	read := &envtest.CRDInstallOptions{Paths: []string{ours(file)}}
	Expect(envtest.ReadCRDFiles(read)).To(Succeed())
	Expect(read.CRDs).To(HaveLen(1))
	definition := read.CRDs[0]
	change(definition)
	Expect(b.admin.Create(ctx, definition)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(b.admin.Delete(ctx, definition)).To(Succeed())
		finder, err := discovery.NewDiscoveryClientForConfig(b.Config())
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega) {
			g.Expect(b.admin.Get(ctx, client.ObjectKeyFromObject(definition), definition.DeepCopy())).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
			groups, err := finder.ServerGroupsWithContext(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(groups.Groups).NotTo(ContainElement(HaveField("Name", "holdfast.dev")))
		}).Should(Succeed())
	})
}

func (b *bare) audit(ctx context.Context) result {
	GinkgoHelper()
	return b.plugin(ctx, "audit")
}

// allocate makes the network of the running pod, its pool with 10.9.0.1, and an entry of a pod that does not exist.
func (b *bare) allocate(ctx context.Context) {
	GinkgoHelper()
	for _, object := range []client.Object{
		&nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "net"},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"0.3.1","name":"net","type":"macvlan","master":"eth0","ipam":{"type":"whereabouts","range":"10.9.0.0/24"}}`}},
		&wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "10.9.0.0-24"},
			Spec: wbv1alpha1.IPPoolSpec{Range: "10.9.0.0/24", Allocations: map[string]wbv1alpha1.IPAllocation{
				"1": {ContainerID: "sandbox-1", PodRef: "apps/web-0", IfName: "net1"}, "2": {ContainerID: "sandbox-2", PodRef: "apps/gone-0", IfName: "net1"}}}},
		reserved("10.9.0.1", "apps/web-0"), reserved("10.9.0.2", "apps/gone-0"),
	} {
		Expect(b.admin.Create(ctx, object)).To(Succeed())
	}
}

// run makes a running pod that shows 10.9.0.1.
func (b *bare) run(ctx context.Context) {
	GinkgoHelper()
	Expect(b.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}})).To(Succeed())
	Expect(b.admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-0", Annotations: map[string]string{
		nadv1.NetworkAttachmentAnnot: "net", nadv1.NetworkStatusAnnot: `[{"name":"apps/net","interface":"net1","ips":["10.9.0.1"]}]`}},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}}}
	Expect(b.admin.Create(ctx, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	Expect(b.admin.Status().Update(ctx, pod)).To(Succeed())
}

func reserved(ip, podRef string) *wbv1alpha1.OverlappingRangeIPReservation {
	return &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ip},
		Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"}}
}

// reader is the kubeconfig of a user who may read what an audit reads, and no CustomResourceDefinition.
func (b *bare) reader(ctx context.Context) string {
	GinkgoHelper()
	read := []string{"get", "list"}
	Expect(b.admin.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "namespaces", "events"}, Verbs: read},
		{APIGroups: []string{"whereabouts.cni.cncf.io", "k8s.cni.cncf.io", "holdfast.dev"}, Resources: []string{"*"}, Verbs: read}}})).To(Succeed())
	Expect(b.admin.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "reader"}}})).To(Succeed())
	return kubeconfigOn(b.ControlPlane, "reader")
}

// leakOnly is what the audit finds in the populated cluster without Holdfast.
const leakOnly = `Compared at TIME: 2 entries, 1 pods, 0 records, 1 nodes, 2 reservations, 0 node resource policies.
` + noHoldfast + `: pools are compared with pods alone. A leak is any entry whose pod does not exist; nothing can lack a record of Holdfast's or contradict one, and nothing is told of node-scoped objects.
Found: Leak 1.

CLASS KIND ADDRESS POD FOUND
Leak PodGone 10.9.0.2 apps/gone-0 10.9.0.2 in pool kube-system/10.9.0.0-24 is recorded for pod apps/gone-0, which does not exist

WHAT TO DO
KIND ADDRESS DO
PodGone 10.9.0.2 find out whether its sandbox is gone; then compare two reports, and release it by them (kubectl holdfast release --from-reports)

1 of the leaks may be released once a later report agrees: kubectl holdfast release --from-reports FIRST SECOND.
`

var _ = Describe("A cluster without Holdfast", Ordered, func() {
	var b *bare
	var first string
	BeforeAll(func(ctx context.Context) {
		b = startBare(ctx)
		b.run(ctx)
		first = filepath.Join(GinkgoT().TempDir(), "first.json")
	}, NodeTimeout(startTimeout))

	It("has neither Multus nor whereabouts, and that is said", func(ctx context.Context) {
		r := b.plugin(ctx, "audit")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring(noHoldfast), ContainSubstring(noWhereabouts), ContainSubstring(noMultus), ContainSubstring("Nothing contradicts anything.")))
		r = b.plugin(ctx, "who", "10.9.0.1")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring(noHoldfast), ContainSubstring(noWhereabouts)))
	}, SpecTimeout(specTimeout))

	It("is audited before Holdfast is installed, which is the way of a migration", func(ctx context.Context) {
		b.define(moduleFile("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml"))
		b.allocate(ctx)
		r := b.plugin(ctx, "audit", "--report", first)
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(text(r.out)).To(Equal(leakOnly))
		Expect(decoded(b.plugin(ctx, "audit", "-o", "json"))).To(HaveKeyWithValue("notServed", ConsistOf("ipallocations.holdfast.dev", "noderesourcepolicies.holdfast.dev")))
		By("by somebody who may not read definitions")
		r = pluginWith(ctx, b.reader(ctx), "", "audit")
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(text(r.out)).To(Equal(leakOnly))
	}, SpecTimeout(specTimeout))

	It("is asked about its pods and addresses", func(ctx context.Context) {
		r := b.plugin(ctx, "who", "10.9.0.1")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(text(r.out)).To(And(HavePrefix("NOW\nPOD STATE NODE SANDBOX SOURCES AGE\napps/web-0 InUse node-1 sandbox-1 Pool,NetworkStatus -\n"), ContainSubstring(noHoldfast)))
		r = b.plugin(ctx, "history", "10.9.0.1")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring("Created"), ContainSubstring(noHoldfast)))
		r = b.plugin(ctx, "explain", "pod/web-0", "-n", "apps")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring("Not held: Holdfast is not installed."), ContainSubstring(noHoldfast)))
		r = b.plugin(ctx, "explain", "ipa/orphan-x")
		Expect(r.code).To(Equal(1), r.out+r.err)
		Expect(r.err).To(And(ContainSubstring("there is no IPAllocation orphan-x"), ContainSubstring(noHoldfast)))
		r = b.plugin(ctx, "doctor", "-n", "apps")
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(text(r.out)).To(And(HavePrefix("LEVEL CHECK FOUND\nFAIL definitions Holdfast is not installed: the API server serves no ipallocations.holdfast.dev and no noderesourcepolicies.holdfast.dev\n"),
			ContainSubstring("FAIL manager replicas there is no Deployment"), ContainSubstring("OK records held none\n")))
		Expect(b.plugin(ctx, "__complete", "who", "").out).To(HavePrefix(":4\n"))
	}, SpecTimeout(specTimeout))

	It("has nothing released by hand", func(ctx context.Context) {
		r := b.plugin(ctx, "release", "10.9.0.2", "--reason", "a test of the refusal", "--confirm", "10.9.0.2")
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(ContainSubstring(noHoldfast + ": without records"))
		backdate(first, time.Hour)
		second := filepath.Join(GinkgoT().TempDir(), "second.json")
		Expect(b.plugin(ctx, "audit", "--report", second).code).To(Equal(2))
		r = b.plugin(ctx, "release", "--from-reports", first, second, "--reason", "a test of the refusal", "--confirm", "1")
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(ContainSubstring(noHoldfast + ": without records"))
		var pool wbv1alpha1.IPPool
		Expect(b.admin.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "10.9.0.0-24"}, &pool)).To(Succeed())
		Expect(pool.Spec.Allocations).To(HaveLen(2))
	}, SpecTimeout(specTimeout))

	It("fails where another version of the records is served: there may be some", func(ctx context.Context) {
		b.defineChanged(ctx, recordsDefinition, func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Name = "v1beta1" })
		Eventually(ctx, func() string { return b.audit(ctx).err }).
			Should(ContainSubstring("it serves ipallocations.holdfast.dev in version v1beta1, and this command reads v1alpha1"))
		for _, args := range [][]string{{"audit"}, {"who", "10.9.0.1"}, {"history", "10.9.0.1"}, {"explain", "pod/web-0", "-n", "apps"}, {"explain", "ipa/orphan-x"}} {
			r := b.plugin(ctx, args...)
			Expect(r.code).To(Equal(1), fmt.Sprint(args, r.out, r.err))
			Expect(r.out).To(BeEmpty())
		}
		Expect(levels(b.plugin(ctx, "doctor", "-n", "apps", "-o", "json"))).To(And(HaveKeyWithValue("records held", "WARN"), HaveKeyWithValue("definitions", "FAIL")))
	}, SpecTimeout(specTimeout))

	It("fails where the definition of the records is there and not served: there may be some", func(ctx context.Context) {
		b.defineChanged(ctx, recordsDefinition, func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false })
		Eventually(ctx, func() string { return b.audit(ctx).err }).
			Should(ContainSubstring("there is a CustomResourceDefinition ipallocations.holdfast.dev, and it is not served"))
	}, SpecTimeout(specTimeout))

	It("fails where nobody says what is served", func(ctx context.Context) {
		reader := kubeconfigOn(b.ControlPlane, "reader")
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:discovery"}}
		Expect(b.admin.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		Expect(b.admin.Delete(ctx, binding.DeepCopy())).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			binding.ResourceVersion = ""
			Expect(b.admin.Create(ctx, binding)).To(Succeed())
		})
		Eventually(ctx, func(g Gomega) {
			r := pluginWith(ctx, reader, "", "audit")
			g.Expect(r.code).To(Equal(1), r.out+r.err)
			g.Expect(r.out).To(BeEmpty())
			g.Expect(r.err).To(ContainSubstring("failed to get server groups"))
		}).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("has one of the definitions, and is told so", func(ctx context.Context) {
		b.define(ours(policiesDefinition))
		r := b.audit(ctx)
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring("Holdfast is installed in part (the API server serves no ipallocations.holdfast.dev)"), ContainSubstring("Found: Leak 1.\n")))
		Expect(text(b.plugin(ctx, "doctor", "-n", "apps").out)).To(ContainSubstring("FAIL definitions Holdfast is installed in part: the API server serves no ipallocations.holdfast.dev\n"))
	}, SpecTimeout(specTimeout))

	It("gets the others, and the reports of before count", func(ctx context.Context) {
		b.define(ours(recordsDefinition))
		second := filepath.Join(GinkgoT().TempDir(), "second.json")
		r := b.plugin(ctx, "audit", "--report", second)
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(text(r.out)).To(And(ContainSubstring("Found: Unrecorded 1, Leak 1.\n"), ContainSubstring("Unrecorded NotGuarded 10.9.0.1 apps/web-0"),
			ContainSubstring("which does not exist, and Holdfast has no record of it"), Not(ContainSubstring("installed"))))
		r = b.plugin(ctx, "release", "--from-reports", first, second, "--dry-run")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(text(r.out)).To(ContainSubstring("ALL THREE AGREE\nADDRESS POOL SANDBOX PODREF INTERFACE\n10.9.0.2 kube-system/10.9.0.0-24 sandbox-2 apps/gone-0 net1\n"))
	}, SpecTimeout(specTimeout))
})
