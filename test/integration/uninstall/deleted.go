// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = suite.Describe("An installation that was deleted without an uninstallation", func() {
	const pods = 5
	BeforeEach(func(ctx context.Context) {
		apps := newNamespace(ctx)
		install(ctx)
		DeferCleanup(cleanUp, apps)
		hold(ctx, apps, pods)
		Expect(admin.Create(ctx, guarded(apps, "living"))).To(Succeed())
		// The manager writes it, so that it is in no manifest.
		Expect(admin.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-node-resources"}})).To(Succeed())

		shell(ctx, "kubectl delete --wait=false --ignore-not-found -f "+manifest())
		Eventually(ctx, func() []unstructured.Unstructured { return deployments(ctx) }).Should(BeEmpty())
		Expect(fixture.HeldPods(ctx)).To(HaveLen(pods+1), "no controller is left that would free them")
		touching, touched := context.WithCancel(ctx)
		DeferCleanup(touched)
		go fixture.TouchDefinitions(touching)
	})

	It("is uninstalled by the command all the same", func(ctx context.Context) {
		code, out := execute(ctx, "--yes")
		Expect(code).To(BeZero(), out)
		Expect(fixture.HeldPods(ctx)).To(BeEmpty())
		Expect(leftovers(ctx)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("is uninstalled by the documented lines all the same", func(ctx context.Context) {
		shell(ctx, documented("Stop the manager, every webhook"))
		shell(ctx, documented("Remove the finalizer from every pod"))
		Expect(fixture.HeldPods(ctx)).To(BeEmpty())
		Expect(webhooksAndProtectors(ctx)).To(BeEmpty())
		shell(ctx, documented("Remove the rest"))
		Eventually(ctx, func() []string { return leftovers(ctx) }).Should(BeEmpty())
	}, SpecTimeout(specTimeout))
})

// manifest is a file with the installation, as a user renders it.
func manifest() string {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("List")
	for _, object := range fixture.Served(rendered()) {
		list.Items = append(list.Items, *object)
	}
	content, err := list.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "holdfast.json")
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file
}

// deployments are those of the manager.
func deployments(ctx context.Context) []unstructured.Unstructured {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps/v1")
	list.SetKind("DeploymentList")
	Expect(admin.List(ctx, list)).To(Succeed())
	return list.Items
}
