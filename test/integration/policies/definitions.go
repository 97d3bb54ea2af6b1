// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = suite.Describe("A CustomResourceDefinition", func() {
	definition := func(name string) *metav1.PartialObjectMetadata {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		return object
	}
	annotate := func(ctx context.Context, object client.Object, value string) {
		GinkgoHelper()
		Expect(user.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+breakGlass+`":`+value+`}}}`)))).To(Succeed())
	}
	It("of whereabouts is not deleted by mistake", func(ctx context.Context) {
		for _, kind := range []string{"ippools", "overlappingrangeipreservations", "nodeslicepools"} {
			object := definition(kind + ".whereabouts.cni.cncf.io")
			refused := outcome("holdfast-whereabouts-definitions", object.Name+" are deleted with it")
			Expect(user.Delete(ctx, object, client.DryRunAll)).To(refused)
			Expect(user.DeleteAllOf(ctx, definition(""), client.DryRunAll, client.MatchingFields{"metadata.name": object.Name})).To(refused)
			annotate(ctx, object, `" "`)
			Expect(user.Delete(ctx, object, client.DryRunAll)).To(refused)
			annotate(ctx, object, `"whereabouts is uninstalled, and no pod has an address of it"`)
			Expect(user.Delete(ctx, object, client.DryRunAll)).To(Succeed())
			annotate(ctx, object, `null`)
		}
	}, SpecTimeout(soon))

	It("of another kind is deleted", func(ctx context.Context) {
		Expect(user.Delete(ctx, definition("network-attachment-definitions.k8s.cni.cncf.io"), client.DryRunAll)).To(Succeed())
	}, SpecTimeout(soon))
})
