// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	manifests "github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

var isSwept = brief{metav1.ConditionTrue, v1alpha1.ReasonSweepCompleted}

// presets are the policies that the manager applies, as they are in the repository.
func presets() []*unstructured.Unstructured {
	GinkgoHelper()
	var policies []*unstructured.Unstructured
	for _, name := range configv1alpha1.NodeResourcePresets() {
		content, err := manifests.Preset(name)
		Expect(err).NotTo(HaveOccurred())
		policy := &unstructured.Unstructured{}
		Expect(yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096).Decode(policy)).To(Succeed())
		Expect(policy.GetKind()).To(Equal("NodeResourcePolicy"))
		policies = append(policies, policy)
	}
	return policies
}

func withPresets() setting {
	s := inCluster()
	s.options.Presets = presets()
	return s
}

// nodeNetworkConfigs is Azure's real definition.
func nodeNetworkConfigs() *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(repository, "internal/testing/nodecrds/azure/nodenetworkconfigs.yaml"))
	Expect(err).NotTo(HaveOccurred())
	definition := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096).Decode(definition)).To(Succeed())
	return definition
}

// undefine deletes a definition with all its objects.
func undefine(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(admin.Delete(ctx, definition))).To(Succeed())
	Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(definition), definition) }).Should(Satisfy(apierrors.IsNotFound))
}

var _ = Describe("The presets", func() {
	const azure = "nodenetworkconfigs"
	objects := func(ctx context.Context) func() int64 {
		return func() int64 {
			if sweep := livePolicy(ctx, azure).Status.Sweep; sweep != nil {
				return sweep.Objects
			}
			return -1
		}
	}

	It("are quiet where their resource is not served, begin by themselves when it comes, and stop quietly when it goes", func(ctx context.Context) {
		stop := startManager(ctx, withPresets())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		eventuallyEntries(ctx, "nodeinfo", azure)
		for _, name := range []string{"nodeinfo", azure} {
			expectConditions(ctx, name, isWaiting, isEnforced)
			Eventually(swept(ctx, name)).Should(Equal(isWaiting))
		}

		definition := nodeNetworkConfigs()
		DeferCleanup(func(ctx context.Context) { undefine(ctx, definition) }, NodeTimeout(specTimeout))
		Expect(admin.Create(ctx, definition.DeepCopy())).To(Succeed())
		expectConditions(ctx, azure, isAccepted, isEnforced)
		Eventually(swept(ctx, azure)).Should(Equal(isSwept), "with the rights that the installation brings")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "preset-node"}}
		Expect(admin.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, node)).To(Succeed()) }, NodeTimeout(specTimeout))
		Eventually(func() error { return admin.Create(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID)) }).Should(Succeed())
		changePolicy(ctx, azure, func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = 3 })
		Eventually(objects(ctx)).Should(Equal(int64(1)))

		undefine(ctx, definition.DeepCopy())
		expectConditions(ctx, azure, isWaiting, isEnforced)
		Eventually(swept(ctx, azure)).Should(Equal(isWaiting))
		Expect(objects(ctx)()).To(BeZero(), "they are gone with their resource")
		expectNoWarning(ctx)
		stop()
	}, NodeTimeout(collectorSpecTimeout))

	It("come back when they are missing, and stay as another writer wants them", func(ctx context.Context) {
		stop := startManager(ctx, withPresets())
		eventuallyEntries(ctx, "nodeinfo", azure)
		By("deleting one")
		first := livePolicy(ctx, azure)
		Expect(admin.Delete(ctx, first)).To(Succeed())
		Eventually(func(g Gomega) {
			again := &v1alpha1.NodeResourcePolicy{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: azure}, again)).To(Succeed())
			g.Expect(again.UID).NotTo(Equal(first.UID))
		}).Should(Succeed())
		By("changing what a preset sets, and what it leaves to users")
		changePolicy(ctx, azure, func(s *v1alpha1.NodeResourcePolicySpec) { s.MissingNode = v1alpha1.MissingNodeAllow })
		changePolicy(ctx, "nodeinfo", func(s *v1alpha1.NodeResourcePolicySpec) { s.Action = v1alpha1.PolicyAudit })
		stop()
		Expect(admin.Delete(ctx, live(ctx))).To(Succeed())
		stop = startManager(ctx, withPresets())
		eventuallyEntries(ctx, "nodeinfo", azure)
		Expect(livePolicy(ctx, azure).Spec.MissingNode).To(Equal(v1alpha1.MissingNodeAllow))
		Expect(livePolicy(ctx, "nodeinfo").Spec.Action).To(Equal(v1alpha1.PolicyAudit))
		stop()
	}, NodeTimeout(specTimeout))

	It("are not applied by a guard that is turned off", func(ctx context.Context) {
		off := withPresets()
		off.options.Disabled = true
		startManager(ctx, off)
		createPolicy(ctx, policy("seen"))
		expectConditions(ctx, "seen", isAccepted, isDisabled)
		var policies v1alpha1.NodeResourcePolicyList
		Expect(admin.List(ctx, &policies)).To(Succeed())
		Expect(policies.Items).To(HaveLen(1))
	}, NodeTimeout(specTimeout))
})

// expectNoWarning looks through the events about policies.
func expectNoWarning(ctx context.Context) {
	GinkgoHelper()
	var events eventsv1.EventList
	Expect(admin.List(ctx, &events)).To(Succeed())
	for _, event := range events.Items {
		if event.Regarding.Kind == "NodeResourcePolicy" && event.Regarding.Name == "nodenetworkconfigs" {
			Expect(event.Type).NotTo(Equal(corev1.EventTypeWarning), event.Note)
		}
	}
}
