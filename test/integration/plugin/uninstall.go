// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What it does is tried by the suite of the uninstallation; here that the plugin leads to it, and asks first.
var _ = suite.Describe("An uninstallation", func() {
	It("is tried dry, and wants consent", func(ctx context.Context) {
		r := plugin(ctx, "uninstall", "--dry-run")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring("8/8 Looking for what is left"), ContainSubstring("A dry run: nothing was changed")))
		r = plugin(ctx, "uninstall")
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(ContainSubstring("only after the answer yes, or with --yes"))
		r = plugin(ctx, "uninstall", "--yes", "--qps=0", "--timeout=-1s")
		Expect(r.code).To(Equal(1))
		Expect(r.err).To(And(ContainSubstring("--qps is 0"), ContainSubstring("--timeout is -1s")))
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: "holdfast-manager"}, &appsv1.Deployment{})).To(Succeed())
	}, SpecTimeout(specTimeout))
})
